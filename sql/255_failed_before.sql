-- One row per launch: the last launch up to it that ended in failure within the same stretch, which
-- is the incident that a roll-back at its end is charged to.
-- Reads: run_launch.
select
    run_id,
    launch_no,
    last_value(case when end_state = 'failed' then launch_no end ignore nulls) over (
        partition by run_id order by launch_no rows unbounded preceding) as failed_no
from run_launch
