-- One row per stretch of steps of a launch that was thrown away: steps [from_step, to_step] were
-- rolled back by the first later launch that went back that far; cut_no is the launch before it,
-- whose end is the cause.
-- Reads: run_launch.
with stepped as (
    select run_id, launch_no, first_step, last_step
    from run_launch
    where first_step is not null
),

later_starts as (
    select
        s.run_id, s.launch_no, s.last_step,
        later.first_step as from_step,
        later.launch_no - 1 as cut_no,
        coalesce(min(later.first_step) over (
            partition by s.run_id, s.launch_no order by later.launch_no
            rows between unbounded preceding and 1 preceding), s.last_step + 1) as known_from
    from stepped as s
    join stepped as later on later.run_id = s.run_id and later.launch_no > s.launch_no
)

select
    run_id, launch_no, from_step, least(known_from - 1, last_step) as to_step, cut_no
from later_starts
where from_step < known_from and from_step <= last_step
