-- One row per incident, with its root and what it cost.
-- Reads: incident_end, incident_root, incident_fact, incident_evidence, piece, run_launch,
-- run_member, step_split.
with cost as (
    select
        run_id, blame_no, blame_skips,
        sum(to_us - from_us) filter (category = 'lost_recompute') / 1e6 as lost_s,
        sum(to_us - from_us) filter (category = 'recovery') / 1e6 as recovery_s,
        -- GPUs that were held: a job in the queue holds none
        sum((to_us - from_us) * n_gpus) / 3.6e9 as gpu_hours
    from piece
    where blame_no is not null
    group by all
),

lost as (
    select run_id, lost_by_no, sum(n_lost) as lost_steps
    from step_split
    where lost_by_no is not null
    group by all
),

first_sign as (
    select
        incident_id,
        min(stated_us) filter (role in ('root', 'either', 'symptom')) as first_us,
        bool_or(mode = 'hang' and role in ('root', 'either', 'symptom')) as has_hang
    from incident_fact
    group by all
),

evidence as (
    select incident_id, sum(count)::bigint as n_evidence
    from incident_evidence
    group by all
),

described as (
    select
        e.*,
        m.n_gpus, m.failed_nodes, m.end_kind, l.end_rule,
        r.is_attributable,
        r.component, r.signature_id, r.mode, r.domain, r.role, r.node, r.gpu, r.message,
        r.captures,
        coalesce(r.file_id, l.file_id, m.file_id) as place_file_id,
        case
            when r.file_id is not null then r.line
            when l.file_id is not null then l.first_line
            else m.line
        end as place_line,
        case
            when r.file_id is not null then r.byte_offset
            when l.file_id is not null then l.first_byte_offset
            else m.byte_offset
        end as place_byte_offset,
        s.first_us, coalesce(s.has_hang, false) as has_hang
    from incident_end as e
    join run_launch as l using (run_id, launch_no)
    join run_member as m on m.run_id = e.run_id and m.attempt_id = e.attempt_id
    left join incident_root as r using (incident_id)
    left join first_sign as s using (incident_id)
)

select
    d.incident_id,
    d.run_id,
    d.attempt_id,
    d.launch_no,
    make_timestamptz(least(d.onset_us, d.first_us)) as onset_at,
    make_timestamptz(case
        when d.first_us is not null then least(greatest(d.first_us, d.onset_us), d.ended_us)
        else d.ended_us
    end) as detected_at,
    make_timestamptz(d.ended_us) as ended_at,
    make_timestamptz(d.resumed_us) as resumed_at,
    case
        when d.is_skips then 'numerical.discarded_updates'
        when d.is_attributable then d.component
        when d.end_kind = 'node_fail' then 'scheduler.node_fail'
        when d.end_kind = 'oom' then 'host.memory'
        when d.end_kind in ('boot_fail', 'launch_fail') then 'scheduler.launch'
        else 'unattributed'
    end as type,
    d.signature_id,
    case
        when d.is_skips then 'fail_slow'
        when not coalesce(d.is_attributable, false) and d.has_hang then 'hang'
        when d.mode in ('fail_stop', 'hang', 'fail_slow') then d.mode
        else 'fail_stop'
    end as mode,
    case
        when d.is_skips then 'workload'
        when d.is_attributable then d.domain
        when d.end_kind in ('node_fail', 'boot_fail', 'launch_fail') then 'infrastructure'
        else 'unknown'
    end as domain,
    case
        when d.node is not null and d.is_attributable then [d.node]
        when map_contains(d.captures, 'nodes') then [d.captures['nodes']]
        else coalesce(d.failed_nodes, []::varchar[])
    end as nodes,
    case when d.gpu is not null and d.is_attributable then [d.gpu] else []::varchar[] end as gpus,
    coalesce(lost.lost_steps, 0)::bigint as lost_steps,
    coalesce(c.lost_s, 0) as lost_s,
    coalesce(c.recovery_s, 0) as recovery_s,
    null::double as slow_s,
    coalesce(c.lost_s, 0) + coalesce(c.recovery_s, 0) as total_s,
    case when d.n_gpus is not null then coalesce(c.gpu_hours, 0) end as gpu_hours,
    1::bigint as n_attempts,
    case
        when d.is_skips then 'confirmed'
        when d.is_attributable and d.role = 'root' then 'confirmed'
        when d.is_attributable then 'likely'
        when d.end_kind in ('node_fail', 'oom') then 'likely'
        when d.end_kind in ('boot_fail', 'launch_fail') then 'weak'
        else 'unattributed'
    end as confidence,
    coalesce(ev.n_evidence, 0) as n_evidence,
    coalesce(
        d.message,
        case when d.is_skips then 'updates discarded by the loss scaler' else d.end_rule end
    ) as summary,
    d.place_file_id as file_id,
    d.place_line as line,
    d.place_byte_offset as byte_offset
from described as d
left join cost as c
    on c.run_id = d.run_id and c.blame_no = d.launch_no and c.blame_skips = d.is_skips
left join lost on lost.run_id = d.run_id and lost.lost_by_no = d.launch_no and not d.is_skips
left join evidence as ev using (incident_id)
order by d.run_id, onset_at, d.incident_id
