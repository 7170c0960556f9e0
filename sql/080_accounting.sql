-- One row per accounting record, times in UTC, equal records once.
-- Reads: raw_accounting_row, file_state.
with utc as (
    select
        a.* exclude (batch, cluster),
        coalesce(a.cluster, f.cluster) as cluster,
        f.modified_us,
        f.timezone,
        -- a clock time that comes twice: the elapsed time tells which one is meant, and the start
        -- which submission
        reading_us(
            a.start_us, a.stamp_kind, f.timezone,
            wall_us(a.end_us, a.stamp_kind, f.timezone)
            - (a.elapsed_s + coalesce(a.suspended_s, 0)) * 1000000) as start_at_us,
        reading_us(
            a.end_us, a.stamp_kind, f.timezone,
            wall_us(a.start_us, a.stamp_kind, f.timezone)
            + (a.elapsed_s + coalesce(a.suspended_s, 0)) * 1000000) as end_at_us
    from raw_accounting_row as a
    join file_state as f using (file_id)
),

submitted as (
    select
        * exclude (timezone),
        reading_us(submit_us, stamp_kind, timezone, start_at_us) as submit_at_us,
        reading_us(eligible_us, stamp_kind, timezone, start_at_us) as eligible_at_us
    from utc
)

select *
from submitted
-- the row that knows most wins: ended before running, later before earlier
qualify row_number() over (
    partition by scheduler, cluster, native_id, step_id, submit_at_us,
        case when step_id is not null then start_at_us end,
        case when step_id is not null then job_name end
    order by
        (end_at_us is null), end_at_us desc, start_at_us desc nulls last, modified_us desc,
        file_id, seq desc
) = 1
