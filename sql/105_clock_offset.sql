-- One row per log whose clock cannot be that of its allocation: what has to be added to its
-- instants. A process does not print before its allocation starts; such a log is moved to the
-- start. A log that lies wholly behind the end is moved back into it. By the least that makes it
-- fit, and where that is more than ten minutes by whole quarters of an hour, since then its zone
-- is wrong (at most 14 hours). A log that only goes on after the end is not moved: orphans print
-- on.
-- Reads: train_line, wild_stamp, file_attempt, job_attempt.
with extents as (
    select t.file_id, min(t.stated_us) as first_us, max(t.stated_us) as last_us
    from train_line as t
    anti join wild_stamp as w on w.file_id = t.file_id and w.seq = t.seq
    where t.stated_us is not null
    group by all
),

allocations as (
    select
        fa.file_id,
        min(a.start_at_us) as start_us,
        -- still running: until the year 10000
        max(coalesce(a.end_at_us, 253402300800000000)) as end_us
    from file_attempt as fa
    join job_attempt as a using (attempt_id)
    where fa.log_confidence >= 0.9
    group by all
    -- an allocation that never lasted says nothing about the clock
    having end_us > start_us
),

least_moves as (
    select
        e.*, a.start_us, a.end_us,
        case
            when e.first_us < a.start_us then a.start_us - e.first_us
            when e.first_us > a.end_us then a.end_us - e.last_us
        end as move_us
    from extents as e
    join allocations as a using (file_id)
),

moves as (
    select
        *,
        case
            when abs(move_us) <= 600000000 then move_us
            else sign(move_us) * ceil(abs(move_us) / 900e6)::bigint * 900000000
        end as round_us
    from least_moves
    where abs(move_us) <= 50400000000
),

fitting as (
    select
        file_id,
        case
            when first_us + round_us >= start_us and last_us + round_us <= end_us then round_us
            when first_us + move_us >= start_us and last_us + move_us <= end_us then move_us
        end::bigint as offset_us
    from moves
)

select file_id, offset_us
from fitting
where offset_us is not null
order by file_id
