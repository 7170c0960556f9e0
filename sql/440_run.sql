-- One row per run: the answer.
-- Reads: segment, run_member, run_launch, step_split, reference, incident.
with walls as (
    select
        run_id,
        min(start_at) as start_at,
        max(end_at) as end_at,
        sum(duration_s) as wall_s,
        coalesce(
            sum(performance_ratio * duration_s) filter (category = 'productive'), 0) as t_opt_s,
        -- productive time without any step time has no ratio: then there is no TOR
        bool_and(performance_ratio is not null) as has_reference,
        sum(duration_s) filter (category = 'unexplained') as unexplained_s,
        sum(performance_ratio * duration_s * n_gpus) / nullif(sum(duration_s * n_gpus), 0)
            as tor_gpu
    from segment
    group by all
),

attempts as (
    select
        run_id,
        any_value(cluster) as cluster,
        arg_min(job_name, ordinal) as name,
        count(*) as n_attempts,
        max(n_gpus)::bigint as n_gpus,
        min(submit_at_us) as submit_us,
        min(start_at_us) as start_us
    from run_member
    group by all
),

ends as (
    select
        run_id, count(*) filter (file_id is not null) as n_launches,
        arg_max(end_state, launch_no) as end_state
    from run_launch
    group by all
),

steps as (
    select
        run_id,
        sum(n_kept) as n_kept,
        sum(n_lost) as n_lost,
        sum(n_discarded) as n_skipped,
        sum(n_uncommitted) as n_uncommitted,
        max(time_error_s) as time_error_s,
        -- steps were kept, and some of them have a time
        sum(n_kept) = 0 or max(ref_us) is not null as has_time
    from step_split
    group by all
),

main_key as (
    select
        s.run_id, any_value(r.step_us) as step_us, any_value(r.p10_us) as p10_us,
        any_value(r.n_healthy_steps) as n_healthy_steps
    from step_split as s
    join reference as r
        on r.run_id = s.run_id
        and r.world_size is not distinct from s.world_size
        and r.global_batch is not distinct from s.global_batch
    group by s.run_id, s.world_size, s.global_batch
    qualify row_number() over (
        partition by s.run_id
        order by sum(s.n_kept) desc, s.world_size, s.global_batch) = 1
),

incidents as (
    select run_id, count(*) as n_incidents
    from incident
    group by all
)

select
    w.run_id,
    a.cluster,
    a.name,
    w.start_at,
    w.end_at,
    e.end_state = 'open' as is_open,
    e.end_state,
    a.n_attempts,
    e.n_launches,
    coalesce(i.n_incidents, 0) as n_incidents,
    a.n_gpus,
    w.wall_s,
    -- a start before the submission is a contradiction, not a negative wait
    case when a.start_us >= a.submit_us then (a.start_us - a.submit_us) / 1e6 end as queue_s,
    case when w.has_reference and s.has_time then w.t_opt_s / w.wall_s end
        as tor_observed,
    case when w.has_reference and s.has_time then w.t_opt_s / w.wall_s end as tor_low,
    case when w.has_reference and coalesce(s.has_time, true)
        then (w.t_opt_s + coalesce(w.unexplained_s, 0)) / w.wall_s end as tor_high,
    case when w.has_reference and s.has_time then w.tor_gpu end as tor_observed_gpu,
    case when w.has_reference then w.t_opt_s end as t_opt_s,
    k.step_us / 1e6 as reference_step_s,
    k.p10_us / 1e6 as reference_p10_s,
    k.n_healthy_steps::bigint as n_healthy_steps,
    coalesce(s.n_kept, 0)::bigint as steps_kept,
    coalesce(s.n_lost, 0)::bigint as steps_lost,
    coalesce(s.n_skipped, 0)::bigint as steps_skipped,
    coalesce(s.n_uncommitted, 0)::bigint as steps_uncommitted,
    coalesce(w.unexplained_s, 0) / w.wall_s as unexplained_share,
    s.time_error_s
from walls as w
join attempts as a using (run_id)
join ends as e using (run_id)
left join steps as s using (run_id)
left join main_key as k using (run_id)
left join incidents as i using (run_id)
order by w.start_at, w.run_id
