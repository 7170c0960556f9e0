-- One row per failure, with the incident that it belongs to. A launch that fails again before any
-- step belongs to the incident before it, unless it shows another cause. An incident is named after
-- its first failure.
-- Reads: failure_root, run_launch.
with ends as (
    select
        f.failure_id, f.run_id, f.launch_no, f.type,
        coalesce(
            l.first_step is null
            and lag(f.launch_no) over (partition by f.run_id order by f.launch_no)
                = f.launch_no - 1,
            false) as is_retry
    from failure_root as f
    join run_launch as l using (run_id, launch_no)
    where f.kind = 'end'
),

loops as (
    select
        *,
        sum((not is_retry)::integer) over (
            partition by run_id order by launch_no rows unbounded preceding) as loop_no
    from ends
),

typed as (
    select
        *,
        last_value(type ignore nulls) over (
            partition by run_id, loop_no order by launch_no
            rows between unbounded preceding and 1 preceding) as type_before
    from loops
),

chains as (
    select
        *,
        sum((not is_retry or coalesce(type <> type_before, false))::integer) over (
            partition by run_id order by launch_no rows unbounded preceding) as chain_no
    from typed
)

select
    failure_id,
    first_value(failure_id) over (
        partition by run_id, chain_no order by launch_no) as incident_id
from chains
union all
select failure_id, failure_id as incident_id
from failure_root
where kind <> 'end'
