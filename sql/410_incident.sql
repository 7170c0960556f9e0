-- One row per incident, with its root and what it cost.
-- Reads: failure_root, failure_fact, incident_member, incident_root, incident_evidence, piece,
-- run_launch, run_member, step_split.
with spent as (
    select
        m.incident_id,
        sum(p.to_us - p.from_us) filter (p.category = 'lost_recompute') / 1e6 as lost_s,
        sum(p.to_us - p.from_us) filter (p.category = 'recovery') / 1e6 as recovery_s,
        sum((1 - p.performance_ratio) * (p.to_us - p.from_us)) filter (p.category = 'productive')
            / 1e6 as slow_s,
        -- GPUs that were held: a job in the queue holds none
        sum((1 - p.performance_ratio) * (p.to_us - p.from_us) * p.n_gpus) / 3.6e9 as gpu_hours
    from piece as p
    join failure_root as f
        on f.run_id = p.run_id
        and case f.kind
            when 'slow' then p.slow_mark = f.slow_mark
            when 'skips' then p.blame_no = f.launch_no and p.blame_skips
            else p.blame_no = f.launch_no and not p.blame_skips
        end
    join incident_member as m using (failure_id)
    where p.blame_no is not null or p.slow_mark is not null
    group by all
),

lost as (
    select m.incident_id, sum(s.n_lost) as lost_steps
    from step_split as s
    join failure_root as f
        on f.run_id = s.run_id and f.launch_no = s.lost_by_no and f.kind = 'end'
    join incident_member as m using (failure_id)
    group by all
),

-- by fact and not by failure: one may speak of several failures of a chain
signs as (
    select
        m.incident_id,
        min(f.stated_us) filter (f.role in ('root', 'either', 'symptom')) as first_us,
        bool_or(f.mode = 'hang' and f.role in ('root', 'either', 'symptom')) as has_hang
    from failure_fact as f
    join incident_member as m using (failure_id)
    group by all
),

evidence as (
    select incident_id, sum(count)::bigint as n_evidence
    from incident_evidence
    group by all
),

chains as (
    select
        m.incident_id,
        min(f.launch_no) as launch_no,
        min(f.onset_us) as onset_us,
        arg_min(f.ended_us, f.launch_no) as first_ended_us,
        max(f.ended_us) as ended_us,
        max(f.resumed_us) as resumed_us,
        count(distinct f.attempt_id) as n_attempts
    from failure_root as f
    join incident_member as m using (failure_id)
    group by all
),

described as (
    select
        r.* exclude (
            launch_no, onset_us, ended_us, resumed_us, attempt_id, file_id, line, byte_offset),
        c.* exclude (incident_id),
        first_launch.attempt_id,
        m.n_gpus, m.failed_nodes, l.end_rule,
        coalesce(r.file_id, l.file_id, m.file_id) as file_id,
        case
            when r.file_id is not null then r.line
            when l.file_id is not null then l.first_line
            else m.line
        end as line,
        case
            when r.file_id is not null then r.byte_offset
            when l.file_id is not null then l.first_byte_offset
            else m.byte_offset
        end as byte_offset,
        s.first_us,
        coalesce(s.has_hang, false) or l.end_rule like '%long silence' as has_hang
    from incident_root as r
    join chains as c using (incident_id)
    join run_launch as first_launch
        on first_launch.run_id = r.run_id and first_launch.launch_no = c.launch_no
    join run_launch as l on l.run_id = r.run_id and l.launch_no = r.launch_no
    join run_member as m on m.run_id = r.run_id and m.attempt_id = r.attempt_id
    left join signs as s using (incident_id)
)

select
    d.incident_id,
    d.run_id,
    d.attempt_id,
    d.launch_no,
    make_timestamptz(
        case when d.kind = 'slow' then d.onset_us else least(d.onset_us, d.first_us) end
    ) as onset_at,
    make_timestamptz(case
        when d.first_us is not null then least(greatest(d.first_us, d.onset_us), d.first_ended_us)
        else d.first_ended_us
    end) as detected_at,
    make_timestamptz(d.ended_us) as ended_at,
    make_timestamptz(d.resumed_us) as resumed_at,
    coalesce(d.type, 'unattributed') as type,
    d.signature_id,
    case
        when d.kind in ('skips', 'slow') then 'fail_slow'
        when d.is_attributable and d.mode = 'hang' then 'hang'
        when not d.is_attributable and d.has_hang then 'hang'
        else 'fail_stop'
    end as mode,
    case
        when d.kind = 'skips' then 'workload'
        when d.is_attributable then d.domain
        when d.kind = 'end' and d.end_kind in ('node_fail', 'boot_fail', 'launch_fail')
            then 'infrastructure'
        else 'unknown'
    end as domain,
    case
        when d.node is not null and d.is_attributable then [d.node]
        when d.kind <> 'end' then []::varchar[]
        when map_contains(d.captures, 'nodes') then [d.captures['nodes']]
        else coalesce(d.failed_nodes, []::varchar[])
    end as nodes,
    case when d.gpu is not null and d.is_attributable then [d.gpu] else []::varchar[] end as gpus,
    coalesce(lost.lost_steps, 0)::bigint as lost_steps,
    coalesce(spent.lost_s, 0) as lost_s,
    coalesce(spent.recovery_s, 0) as recovery_s,
    coalesce(spent.slow_s, 0) as slow_s,
    coalesce(spent.lost_s, 0) + coalesce(spent.recovery_s, 0) + coalesce(spent.slow_s, 0)
        as total_s,
    case when d.n_gpus is not null then coalesce(spent.gpu_hours, 0) end as gpu_hours,
    d.n_attempts,
    case
        when d.kind = 'skips' then 'confirmed'
        when d.is_attributable and d.role = 'root' then 'confirmed'
        when d.is_attributable then 'likely'
        when d.type in ('scheduler.node_fail', 'host.memory') then 'likely'
        when d.type = 'scheduler.launch' then 'weak'
        else 'unattributed'
    end as confidence,
    coalesce(ev.n_evidence, 0) as n_evidence,
    coalesce(
        d.message,
        case d.kind
            when 'skips' then 'updates discarded by the loss scaler'
            when 'slow' then 'steps slower than the reference'
            else d.end_rule
        end
    ) as summary,
    d.file_id,
    d.line,
    d.byte_offset
from described as d
left join spent using (incident_id)
left join lost using (incident_id)
left join evidence as ev using (incident_id)
order by d.run_id, onset_at, d.incident_id
