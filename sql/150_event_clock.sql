-- One row per training-log line with its resolved instant. A line without a time of its own takes
-- it from the last fixed point before it in its launch, plus what the launch's own clock says has
-- passed since: the elapsed time of its progress bar, or the sum of stated durations. It never
-- lies later than the next fixed point and that clock allow (a bar may be printed long after its
-- time, when output is buffered). Without any fixed point the start of the attempt (scheduler) is
-- one, else the begin of the next launch that has one, else the modification time of the file
-- (mtime): launches of one file follow each other.
-- Reads: launch_line, step_line, launch_stamp, launch_attempt, job_attempt, file_state.
with every_line_stated as (
    select file_id, launch_in_file
    from launch_line
    group by all
    having count(stated_us) = count(*)
),

lines as (
    select
        l.file_id, l.launch_in_file, l.seq, l.stated_us, l.stamp_source, l.stamp_resolution_s,
        l.elapsed_s, l.elapsed_resolution_s,
        -- frames that are printed again, by this bar or another rank's, would crowd their second
        l.elapsed_s is not null and (
            s.seq is not null
            or l.seq = min(l.seq) filter (l.elapsed_s is not null)
                over (partition by l.file_id, l.launch_in_file)
        ) as has_bar,
        case
            when l.kind = 'evaluation' and l.stated_us is null
                then coalesce(l.duration_ms, 0) * 1000
            when l.stated_us is null and s.step_ms is not null then s.n_steps * s.step_ms * 1000
            else 0
        end as spent_us
    from launch_line as l
    left join step_line as s using (file_id, seq)
    anti join every_line_stated as e
        on e.file_id = l.file_id and e.launch_in_file = l.launch_in_file
),

-- a bar that begins anew with every epoch goes on from where it stood
restarts as (
    select
        *,
        case
            when elapsed_s < lag(elapsed_s) over bar / 2 then lag(elapsed_s) over bar else 0
        end as stood_s
    from lines
    window bar as (partition by file_id, launch_in_file, has_bar order by seq)
),

bars as (
    select
        * exclude (stood_s)
        replace (elapsed_s + sum(stood_s) over (
            partition by file_id, launch_in_file, has_bar order by seq
            rows unbounded preceding) as elapsed_s)
    from restarts
),

-- whole seconds of a progress bar: frames of one second are spread evenly over it
spread as (
    select
        *,
        case
            when not has_bar then null
            when elapsed_s = 0 and seq = min(seq) over bar then 0
            else 1e6 * (elapsed_s + coalesce(elapsed_resolution_s, 0) * (
                row_number() over second - 0.5) / count(*) over same_second)
        end as bar_us
    from bars
    window
        bar as (partition by file_id, launch_in_file, has_bar),
        second as (partition by file_id, launch_in_file, elapsed_s, has_bar order by seq),
        same_second as (partition by file_id, launch_in_file, elapsed_s, has_bar)
),

-- what stands before the first fixed point of a launch also stands before the steps that it ends
points as (
    select
        p.file_id, p.launch_in_file, p.seq, p.at_us, p.error_s,
        case
            when row_number() over (
                partition by p.file_id, p.launch_in_file order by p.seq, p.at_us) = 1
                then coalesce(s.n_steps * s.step_ms * 1000, 0)
            else 0
        end as spent_us
    from launch_stamp as p
    left join step_line as s using (file_id, seq)
    where (p.file_id, p.launch_in_file) in (select (file_id, launch_in_file) from lines)
),

merged as (
    select
        file_id, launch_in_file, seq, bar_us, spent_us,
        null::bigint as at_us, null::double as error_s, true as is_line
    from spread
    where stated_us is null
    union all by name
    select *, null::double as bar_us, false as is_line from points
),

summed as (
    select
        *,
        last_value(bar_us ignore nulls) over so_far as last_bar_us,
        sum(spent_us) over so_far as sum_us
    from merged
    window so_far as (
        partition by file_id, launch_in_file order by seq rows unbounded preceding)
),

clocked as (
    -- a bar's own clock contains what was spent before it
    select
        *,
        coalesce(last_bar_us, 0) + sum_us - coalesce(
            last_value(case when bar_us is not null then sum_us end ignore nulls) over so_far, 0
        ) as clock_us
    from summed
    window so_far as (
        partition by file_id, launch_in_file order by seq rows unbounded preceding)
),

between_points as (
    select
        *,
        last_value(at_us ignore nulls) over before as before_us,
        last_value(error_s ignore nulls) over before as before_error_s,
        last_value(case when at_us is not null then clock_us end ignore nulls) over before
            as before_clock_us,
        first_value(at_us ignore nulls) over after as after_us,
        first_value(case when at_us is not null then clock_us end ignore nulls) over after
            as after_clock_us,
        max(clock_us) over (partition by file_id, launch_in_file) as last_clock_us,
        first_value(case when bar_us is not null or spent_us > 0 then clock_us end ignore nulls)
            over after as next_clock_us
    from clocked
    window
        before as (partition by file_id, launch_in_file order by seq rows unbounded preceding),
        after as (
            partition by file_id, launch_in_file order by seq
            rows between current row and unbounded following)
),

launch_clock as (
    select
        l.file_id, l.launch_in_file,
        coalesce(max(c.clock_us), 0) as spent_us,
        coalesce(min(c.at_us - c.clock_us), min(s.at_us)) as begin_us
    from (select distinct file_id, launch_in_file from launch_line) as l
    left join clocked as c using (file_id, launch_in_file)
    left join launch_stamp as s using (file_id, launch_in_file)
    group by all
),

from_the_end as (
    select *, sum(spent_us) over (
        partition by file_id order by launch_in_file desc rows unbounded preceding) as rest_us
    from launch_clock
),

launch_end as (
    select
        l.file_id, l.launch_in_file,
        coalesce(
            first_value(l.begin_us + l.rest_us ignore nulls) over later, f.modified_us
        ) - (l.rest_us - l.spent_us) as end_us
    from from_the_end as l
    join file_state as f using (file_id)
    window later as (
        partition by l.file_id order by l.launch_in_file
        rows between 1 following and unbounded following)
),

placed as (
    select
        p.*,
        case
            when p.before_us is not null then
                least(
                    p.before_us + p.clock_us - p.before_clock_us,
                    p.after_us - (p.after_clock_us - p.clock_us))
            when p.after_us is not null then p.after_us - (p.after_clock_us - p.clock_us)
            when a.start_at_us is not null then a.start_at_us + p.clock_us
            else e.end_us - (p.last_clock_us - p.clock_us)
        end::bigint as at_us_resolved,
        case
            when p.before_us is not null and p.after_us is not null then 'interpolated'
            when p.before_us is not null or p.after_us is not null then 'cumulative'
            when a.start_at_us is not null then 'scheduler'
            else 'mtime'
        end as time_source,
        coalesce(p.before_error_s, 1)
        + (coalesce(p.next_clock_us, p.clock_us) - p.clock_us) / 1e6 as time_error_s
    from between_points as p
    left join launch_attempt as la using (file_id, launch_in_file)
    left join job_attempt as a using (attempt_id)
    join launch_end as e using (file_id, launch_in_file)
    where p.is_line
)

select
    l.file_id,
    l.launch_in_file,
    l.seq,
    coalesce(l.stated_us, placed.at_us_resolved) as at_us,
    case when l.stated_us is not null then l.stamp_source else placed.time_source end
        as time_source,
    case
        when l.stated_us is not null then coalesce(l.stamp_resolution_s, 1)
        else placed.time_error_s + coalesce(l.elapsed_resolution_s, 0)
    end as time_error_s
from launch_line as l
left join placed using (file_id, launch_in_file, seq)
