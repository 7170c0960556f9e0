-- One row per cause that cost a run time. The seconds of a run sum to wall_s x (1 - TOR).
-- Reads: segment, incident.
with spent as (
    select
        s.run_id,
        case when s.category = 'productive' then 'slow' else s.cause end as cause,
        s.incident_id,
        (1 - s.performance_ratio) * s.duration_s as seconds,
        (1 - s.performance_ratio) * s.duration_s * s.n_gpus / 3600 as gpu_hours
    from segment as s
),

walls as (
    select run_id, sum(duration_s) as wall_s
    from segment
    group by all
)

select
    spent.run_id,
    spent.cause,
    any_value(i.type) as type,
    spent.incident_id,
    sum(spent.seconds) as seconds,
    sum(spent.seconds) / any_value(walls.wall_s) as share,
    sum(spent.gpu_hours) as gpu_hours
from spent
join walls using (run_id)
left join incident as i using (incident_id)
where spent.seconds <> 0
group by spent.run_id, spent.cause, spent.incident_id
order by run_id, seconds desc, cause, incident_id
