-- One row per stretch of slow steps of a launch: step lines slower than 1.2 x the reference by more
-- than the clock's error, at least three of them and five steps, most of the steps in between.
-- Single slow steps are jitter.
-- Reads: step_split.
with slow as (
    select
        run_id, launch_no, attempt_id, mark_no, step_from, step_to, n_steps,
        lag(step_to) over (partition by run_id, launch_no order by mark_no) as slow_until
    from step_split
    where n_kept > 0
        and steps_us > 1.2 * ref_steps_us and steps_us - ref_steps_us > 2e6 * time_error_s
),

stretches as (
    select
        *,
        sum(coalesce(step_from > slow_until + 1 + 2 * n_steps, true)::integer) over (
            partition by run_id, launch_no order by mark_no rows unbounded preceding) as stretch
    from slow
)

select
    run_id, launch_no, any_value(attempt_id) as attempt_id,
    min(mark_no) as from_mark, max(mark_no) as to_mark
from stretches
group by run_id, launch_no, stretch
having count(*) >= 3 and sum(n_steps) >= 5
    and 2 * sum(n_steps) > max(step_to) - min(step_from) + 1
order by run_id, launch_no, from_mark
