-- Steps of a run that survive are disjoint: no two step lines keep the same step.
with kept as (
    select
        run_id, launch_no, step_from as first_kept, step_to - n_lost as last_kept, file_id, line
    from step_interval
    where n_lost < n_steps
),

in_order as (
    select
        *,
        max(last_kept) over (
            partition by run_id order by first_kept, last_kept
            rows between unbounded preceding and 1 preceding) as kept_so_far
    from kept
)

select run_id, launch_no, first_kept, last_kept, kept_so_far, file_id, line
from in_order
where kept_so_far >= first_kept
order by all
