-- One row per accounting record, times in UTC, equal records once.
-- Reads: raw_accounting_row, file_state.
with utc as (
    select
        a.* exclude (batch, cluster),
        coalesce(a.cluster, f.cluster) as cluster,
        f.modified_us,
        wall_us(a.submit_us, a.stamp_kind, f.timezone) as submit_at_us,
        wall_us(a.eligible_us, a.stamp_kind, f.timezone) as eligible_at_us,
        -- a clock time that comes twice: the elapsed time tells which one is meant
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
)

select *
from utc
-- the row that knows most wins: ended before running, later before earlier
qualify row_number() over (
    partition by scheduler, cluster, native_id, step_id, submit_at_us,
        case when step_id is not null then start_at_us end,
        case when step_id is not null then job_name end
    order by (end_at_us is null), end_at_us desc, start_at_us desc nulls last, file_id, seq desc
) = 1
