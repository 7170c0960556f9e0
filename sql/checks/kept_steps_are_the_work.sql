-- The work of a run is its kept steps times their reference, and its kept evaluations. Only the
-- first line of a launch may be missing from it: where the log begins with that line its step was
-- not seen.
with steps as (
    select
        run_id,
        (n_steps - n_lost - least(n_skipped, n_steps - n_lost)) * reference_s / n_steps as kept_s,
        (row_number() over (partition by run_id, launch_no order by step_from) = 1 and train_s = 0)
            or sum(train_s) over (partition by run_id, launch_no) = 0 as may_be_unseen
    from step_interval
),

work as (
    select
        run_id, sum(kept_s) as kept_s, coalesce(sum(kept_s) filter (may_be_unseen), 0) as unseen_s
    from steps
    group by run_id
),

evaluations as (
    select run_id, sum(duration_s) as evaluation_s
    from segment
    where category = 'productive' and phase = 'evaluation'
    group by run_id
)

select run_id, t_opt_s, kept_s, unseen_s, evaluation_s
from run
join work using (run_id)
left join evaluations using (run_id)
where steps_uncommitted = 0
    and t_opt_s - coalesce(evaluation_s, 0)
        not between (kept_s - unseen_s) * (1 - 1e-9) - 1e-6 and kept_s * (1 + 1e-9) + 1e-6
order by run_id
