-- One row per step line with productive time: the kept steps that the time stands for. Steps that
-- ended within one tick of the clock share the time up to the next tick, so that each kept step
-- counts once.
-- Reads: mark_fate.
with kept_time as (
    select
        run_id, launch_no, step_seq,
        sum(case when what = 'step' then b6_us - b5_us else at_us - prev_us end) as productive_us,
        any_value(n_kept) as n_kept, any_value(kept_us) as kept_us,
        -- the line that a launch begins with: its first step ran before the run was seen
        bool_or(what = 'step' and prev_what = 'launch_sign') and productive_us = 0 as is_unseen
    from mark_fate
    where n_kept > 0 and what in ('step', 'save_begin', 'evaluation_begin')
    group by all
),

-- steps that ended within one tick of the clock share the time up to the next tick
ticks as (
    select
        *,
        least(
            coalesce(
                sum((productive_us > 0)::integer) over (
                    launch rows between unbounded preceding and 1 preceding), 0),
            sum((productive_us > 0)::integer) over (partition by run_id, launch_no) - 1) as tick
    from kept_time
    where not is_unseen
    window launch as (partition by run_id, launch_no order by step_seq)
)

select
    run_id, launch_no, max(step_seq) filter (productive_us > 0) as step_seq,
    sum(productive_us) as productive_us, sum(n_kept) as n_kept, sum(kept_us) as kept_us
from ticks
group by run_id, launch_no, tick
