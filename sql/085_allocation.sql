-- One row per allocation that the accounting shows. Rows that a change of its size closed
-- (RESIZING) and the row behind them are one allocation: it lasts from the first to the last, ends
-- as the last one says, and has the size that was asked for first.
-- Reads: accounting.
with ordered as (
    select
        *,
        row_number() over same_job as place,
        lag(state_base) over same_job is not distinct from 'RESIZING' as is_continued
    from accounting
    where step_id is null
    window same_job as (
        partition by scheduler, cluster, native_id, het_offset
        order by start_at_us nulls last, submit_at_us, end_at_us nulls last, file_id, seq)
),

numbered as (
    select
        *,
        sum((not is_continued)::integer) over (
            partition by scheduler, cluster, native_id, het_offset order by place
            rows unbounded preceding) as part
    from ordered
)

select * exclude (place, is_continued, part)
    replace (
        first_value(submit_at_us) over parts as submit_at_us,
        first_value(eligible_at_us) over parts as eligible_at_us,
        first_value(start_at_us) over parts as start_at_us,
        (sum(elapsed_s) over parts)::bigint as elapsed_s,
        first_value(n_nodes) over parts as n_nodes,
        first_value(n_gpus) over parts as n_gpus,
        first_value(nodes) over parts as nodes)
from numbered
window parts as (
    partition by scheduler, cluster, native_id, het_offset, part order by place
    rows between unbounded preceding and unbounded following)
qualify place = max(place) over parts
