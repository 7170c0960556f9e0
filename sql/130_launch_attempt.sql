-- One row per launch of a log, with the attempt that it ran in (null: no accounting knows it).
-- Among the attempts of its file a launch belongs to the one that it overlaps most in time; a
-- launch without any stated instant keeps its place in the order.
-- Reads: launch_bound, launch_stamp, launch_line, file_attempt, job_attempt, clock_offset.
with launches as (
    select
        b.file_id,
        b.launch_in_file,
        count(*) over (partition by b.file_id) as n_launches,
        s.first_us,
        s.last_us
    from launch_bound as b
    semi join launch_line
        on launch_line.file_id = b.file_id and launch_line.launch_in_file = b.launch_in_file
    left join (
        select file_id, launch_in_file, min(at_us) as first_us, max(at_us) as last_us
        from launch_stamp
        group by all
    ) as s
        on s.file_id = b.file_id and s.launch_in_file = b.launch_in_file
),

candidates as (
    select
        -- still running: until the year 10000, so that slack can be added
        fa.*, a.start_at_us, coalesce(a.end_at_us, 253402300800000000) as until_us,
        row_number() over (partition by fa.file_id order by a.start_at_us, a.attempt_id) as nth,
        count(*) over (partition by fa.file_id) as n_candidates
    from file_attempt as fa
    join job_attempt as a using (attempt_id)
),

scored as (
    select
        l.*,
        c.attempt_id, c.log_rule, c.log_confidence,
        case
            when l.first_us is null then 0
            -- an allocation that never lasted did not hold minutes of training
            when c.until_us <= c.start_at_us and l.last_us > c.until_us + 60000000 then -1
            -- slack of a minute: clocks of nodes and of the controller differ
            when l.first_us <= c.until_us + 60000000 and l.last_us >= c.start_at_us - 60000000 then
                2 + greatest(
                    0, least(l.last_us, c.until_us) - greatest(l.first_us, c.start_at_us))
            else -1
        end as overlap_us,
        abs(least(l.launch_in_file, c.n_candidates) - c.nth) as misplaced
    from launches as l
    left join candidates as c on l.file_id = c.file_id
),

best as (
    select *
    from scored
    qualify
        row_number() over (
            partition by file_id, launch_in_file
            order by overlap_us desc, misplaced, attempt_id) = 1
)

select
    best.file_id,
    launch_in_file,
    n_launches,
    first_us,
    last_us,
    o.offset_us,
    case when overlap_us >= 0 then attempt_id end as attempt_id,
    case when overlap_us >= 0 then log_rule end as log_rule,
    case when overlap_us >= 0 then log_confidence end as log_confidence
from best
left join clock_offset as o on o.file_id = best.file_id
