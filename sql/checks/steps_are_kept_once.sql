-- Steps of a run that survive are disjoint: the last kept step of a launch is before the next first.
with kept as (
    select run_id, launch_no, min(step_from) as first_kept, max(step_to - n_lost) as last_kept
    from step_interval
    where n_lost < n_steps
    group by run_id, launch_no
)

select a.run_id, a.launch_no, b.launch_no as later_no, a.last_kept, b.first_kept
from kept as a
join kept as b on b.run_id = a.run_id and b.launch_no > a.launch_no
where a.last_kept >= b.first_kept
order by all
