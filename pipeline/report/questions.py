"""The questions that a report asks the timeline tables; `$runs` are the ids of the runs chosen."""

from __future__ import annotations

RUN = """
select
    run_id, name, cluster, start_at, end_at, is_open, wall_s::double as wall_s, tor_observed,
    queue_s::double as queue_s, steps_kept, steps_lost, reference_step_s, n_attempts,
    coalesce(n_incidents, 0) as n_incidents, end_state, tor_low, tor_high, tor_observed_gpu,
    t_opt_s::double as t_opt_s, unexplained_share::double as unexplained_share, n_launches, n_gpus,
    reference_p10_s, n_healthy_steps, steps_skipped, steps_uncommitted,
    time_error_s::double as time_error_s
from run
where
    ($run::varchar is null or run_id = $run or name = $run)
    and ($cluster::varchar is null or cluster = $cluster)
    and ($since::timestamptz is null or end_at > $since)
    and ($until::timestamptz is null or start_at < $until)
order by start_at, run_id
"""

NEWEST_RUNS = """
select run_id, name, start_at, end_at
from run
order by start_at desc, run_id
limit 10
"""

SEGMENT_SECONDS = """
-- productive time of unknown speed counts as productive; then the slow part is unknown
select
    run_id,
    coalesce(sum(coalesce(performance_ratio, 1) * duration_s)
        filter (category = 'productive'), 0)::double as productive,
    case
        when bool_or(category = 'productive' and performance_ratio is null) then null
        else coalesce(sum((1 - performance_ratio) * duration_s)
            filter (category = 'productive'), 0)
    end::double as slow,
    coalesce(sum(duration_s) filter (category = 'lost_recompute'), 0)::double as lost_recompute,
    coalesce(sum(duration_s) filter (category = 'checkpoint'), 0)::double as checkpoint,
    coalesce(sum(duration_s) filter (category = 'recovery'), 0)::double as recovery,
    coalesce(sum(duration_s) filter (category = 'startup'), 0)::double as startup,
    coalesce(sum(duration_s) filter (category = 'planned'), 0)::double as planned,
    coalesce(sum(duration_s) filter (category = 'uncommitted'), 0)::double as uncommitted,
    coalesce(sum(duration_s) filter (category = 'unexplained'), 0)::double as unexplained
from (select * from segment where run_id in (select unnest($runs)) order by run_id, start_at)
group by run_id
order by run_id
"""

LOSS = """
select run_id, cause, type, seconds::double as seconds, share::double as share,
    gpu_hours::double as gpu_hours, incident_id
from loss
where run_id in (select unnest($runs))
order by run_id, seconds desc, cause, incident_id
"""

ATTEMPT = """
with launches as (
    select run_id, attempt_id, min(first_step) as first_step, max(last_step) as last_step,
        count(*) as n_launches
    from launch
    group by all
),

links as (
    select attempt_id, rule, arg_max(evidence, confidence) as evidence
    from run_link
    where is_used
    group by all
)

select
    r.run_id, r.attempt_id, r.ordinal, a.scheduler, a.job_id, a.submit_at, a.start_at, a.end_at,
    a.state, a.end_kind, a.exit_code, a.exit_signal, a.n_nodes, a.n_gpus,
    coalesce(a.failed_nodes, []) as failed_nodes, a.is_runaway, l.first_step, l.last_step,
    coalesce(l.n_launches, 0) as n_launches, r.link_rule,
    round(r.link_confidence::double, 6) as link_confidence, links.evidence as link_evidence,
    f.path as file, a.line
from run_attempt as r
join attempt as a using (attempt_id)
left join launches as l on l.run_id = r.run_id and l.attempt_id = r.attempt_id
left join links on links.attempt_id = r.attempt_id and links.rule = r.link_rule
left join file as f on f.file_id = a.file_id
where r.run_id in (select unnest($runs))
order by r.run_id, r.ordinal, r.attempt_id
"""

LAUNCH = """
select
    l.run_id, l.launch_no, l.attempt_id, l.start_at, l.end_at, l.first_step, l.last_step,
    l.end_state, l.end_rule, f.path as file, l.log_rule,
    round(l.log_confidence::double, 6) as log_confidence,
    l.clock_offset_s::double as clock_offset_s
from launch as l
left join file as f using (file_id)
where l.run_id in (select unnest($runs))
order by l.run_id, l.launch_no
"""

CHECKPOINT = """
select
    run_id,
    count(*) as n_saves,
    count(*) filter (is_durable) as n_durable,
    count(*) filter (is_async) as n_async,
    max(step) filter (is_durable) as last_durable_step,
    max(coalesce(durable_at, begin_at)) filter (is_durable) as last_durable_at
from checkpoint
where run_id in (select unnest($runs))
group by run_id
order by run_id
"""

INCIDENT = """
with lines as (
    select incident_id, count(distinct (file_id, line)) as n_evidence_lines
    from incident_evidence
    where incident_id in (
        select incident_id from incident where run_id in (select unnest($runs)))
    group by all
)

select
    run_id, incident_id, attempt_id, launch_no, onset_at, detected_at, ended_at, resumed_at, type,
    signature_id, mode, domain, coalesce(nodes, []) as nodes, coalesce(gpus, []) as gpus,
    lost_steps, lost_s::double as lost_s, recovery_s::double as recovery_s,
    slow_s::double as slow_s, total_s::double as total_s, gpu_hours::double as gpu_hours,
    n_attempts, confidence, n_evidence, coalesce(n_evidence_lines, 0) as n_evidence_lines, summary
from incident
left join lines using (incident_id)
where run_id in (select unnest($runs))
order by run_id, onset_at, incident_id
"""

EVIDENCE = """
-- the root, then one line of each signature, then the rest, the earliest first; 12 an incident
with lines as (
    select
        e.*, f.path,
        row_number() over (
            partition by e.incident_id, e.signature_id
            order by e.is_root desc, e.occurred_at nulls last, e.file_id, e.seq) as nth
    from incident_evidence as e
    join incident as i using (incident_id)
    left join file as f on f.file_id = e.file_id
    where i.run_id in (select unnest($runs))
)

select
    incident_id, coalesce(path, file_id) as file, line, role, coalesce(is_root, false) as is_root,
    signature_id, occurred_at, node, rank, count::bigint as count, message, file_id
from lines
qualify
    row_number() over (
        partition by incident_id
        order by is_root desc, nth > 1, occurred_at nulls last, file_id, seq, signature_id) <= 12
order by incident_id, is_root desc, nth > 1, occurred_at nulls last, file_id, seq, signature_id
"""

INCIDENT_LINE = """
-- what speaks of some incidents, with what its signature means; of each incident at most 60 lines:
-- the root, the first of each signature and place, then the earliest
with lines as (
    select
        e.incident_id, coalesce(f.path, e.file_id) as file, e.line, e.role,
        coalesce(e.is_root, false) as is_root, e.signature_id, e.occurred_at, e.node, e.rank,
        e.count::bigint as count, e.message, e.file_id, e.seq,
        row_number() over (
            partition by e.incident_id, e.signature_id, e.node, e.rank
            order by e.is_root desc, e.occurred_at nulls last, e.file_id, e.seq) as nth
    from incident_evidence as e
    left join file as f on f.file_id = e.file_id
    where e.incident_id in (select unnest($incidents))
)

select * exclude (nth, seq)
from lines
qualify
    row_number() over (
        partition by incident_id
        order by is_root desc, nth > 1, occurred_at nulls last, file_id, seq, signature_id) <= 60
order by incident_id, occurred_at nulls last, file_id, seq, signature_id
"""

CANDIDATE = """
-- what else could have caused some incidents: one row per signature that is not the chosen root,
-- in the order in which a root is chosen; collectives, exits and bare tracebacks are only hints
with lines as (
    select
        e.incident_id, e.signature_id, e.is_root, e.occurred_at, e.node, e.rank, e.line, e.seq,
        e.file_id, e.count, f.component, f.role, f.priority, f.mode,
        f.component like 'comm.%' or f.component like 'process.%'
            or f.component = 'software.unknown' as is_hint
    from incident_evidence as e
    join fault_event as f using (file_id, seq, signature_id)
    where e.incident_id in (select unnest($incidents)) and f.domain <> 'operator'
),

per_signature as (
    select
        incident_id, signature_id, any_value(component) as component, any_value(role) as role,
        min(priority) as priority, bool_or(is_hint) as is_hint, bool_or(is_root) as has_root,
        bool_and(mode not in ('fail_stop', 'hang', 'fail_slow')) as is_warning,
        bool_and(mode = 'fail_slow') as is_slow,
        count(distinct (file_id, line)) as n_lines, min(occurred_at) as first_at,
        list_sort(list(distinct node) filter (node is not null)) as nodes,
        arg_min(file_id, (occurred_at, file_id, seq)) as file_id,
        arg_min(line, (occurred_at, file_id, seq)) as line
    from lines
    where role in ('root', 'either')
    group by incident_id, signature_id
)

select
    p.incident_id, p.signature_id, p.component, p.role, p.is_hint, p.is_warning or p.is_slow
        as is_milder, p.n_lines, p.first_at,
    coalesce(p.nodes, []) as nodes, coalesce(f.path, p.file_id) as file, p.line
from per_signature as p
left join file as f on f.file_id = p.file_id
where not p.has_root
order by p.incident_id, p.is_hint, p.is_warning, p.is_slow, p.role = 'either', p.priority,
    p.first_at nulls last, p.signature_id
"""

FIRST_SIGN = """
-- who spoke first of some incidents: one row per node and rank
select
    incident_id, node, rank, min(occurred_at) as first_at,
    count(distinct (file_id, line)) as n_lines
from incident_evidence
where
    incident_id in (select unnest($incidents)) and occurred_at is not null
    and role in ('root', 'either', 'symptom', 'cascade')
group by incident_id, node, rank
order by incident_id, first_at, node nulls last, rank nulls last
"""

SEGMENT = """
select
    run_id, segment_id, launch_no, start_at, end_at, duration_s::double as duration_s, category,
    phase, performance_ratio::double as performance_ratio, incident_id, cause, rule
from segment
where run_id in (select unnest($runs))
order by run_id, start_at
"""
