-- One row per launch of a run that was up or failed: for how long, on what, which failure ended it.
-- Up is training, evaluating and saving, whether its result survived or not; not starting, waiting,
-- hanging, or time that nothing explains. Without any log the allocation is all that is known.
-- Reads: segment, launch, attempt, incident.
with spent as (
    select
        s.run_id,
        s.launch_no,
        any_value(s.attempt_id) as attempt_id,
        case when bool_and(l.run_id is null) then 'allocation' else 'steps' end as rule,
        min(s.start_at) as start_at,
        max(s.end_at) as end_at,
        sum(s.duration_s) as up_s,
        case when bool_and(s.n_gpus is not null)
            then sum(s.duration_s * s.n_gpus) / 3600 end as gpu_hours
    from segment as s
    left join launch as l using (run_id, launch_no)
    where
        s.category in ('productive', 'lost_recompute', 'checkpoint', 'uncommitted')
        or (s.category = 'unexplained' and l.run_id is null and s.launch_no is not null)
    group by all
),

failed as (
    select run_id, launch_no, attempt_id, incident_id, type, onset_at
    from incident
    where mode <> 'fail_slow'
),

stretches as (
    select
        run_id,
        launch_no,
        coalesce(s.attempt_id, f.attempt_id) as attempt_id,
        coalesce(s.start_at, f.onset_at) as start_at,
        coalesce(s.end_at, f.onset_at) as end_at,
        coalesce(s.up_s, 0) as up_s,
        case when s.run_id is null then 0 else s.gpu_hours end as gpu_hours,
        f.incident_id,
        f.type,
        coalesce(s.rule, 'steps') as rule
    from spent as s
    full join failed as f using (run_id, launch_no)
)

select
    s.run_id,
    s.launch_no,
    s.attempt_id,
    s.start_at,
    s.end_at,
    s.up_s,
    case when s.up_s = 0 then 0 else s.up_s * a.n_nodes / 3600 end as node_hours,
    s.gpu_hours,
    s.incident_id,
    s.type,
    s.rule
from stretches as s
left join attempt as a using (attempt_id)
order by s.run_id, s.launch_no
