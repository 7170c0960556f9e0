-- One row per maximal stretch of equal use of a run's wall clock.
-- performance_ratio = kept steps x reference step time / duration, so that the sum over segments is
-- the kept work whatever the jitter of single steps.
-- Reads: piece, failure, incident_member.
with failures as (
    select f.run_id, f.kind, f.launch_no, f.slow_mark, m.incident_id
    from failure as f
    join incident_member as m using (failure_id)
),

caused as (
    select
        p.*,
        coalesce(e.incident_id, s.incident_id) as incident_id,
        case
            when p.is_slow then 'slow'
            when p.category = 'productive' then null
            when e.incident_id is not null then 'incident'
            when p.category in ('lost_recompute', 'recovery') then 'planned'
            else p.category
        end as cause
    from piece as p
    left join failures as e
        on e.run_id = p.run_id and e.launch_no = p.blame_no
        and e.kind = case when p.blame_skips then 'skips' else 'end' end
    left join failures as s
        on s.run_id = p.run_id and s.slow_mark = p.slow_mark
),

islands as (
    select
        *,
        sum(is_new::integer) over (
            partition by run_id order by mark_no, from_us rows unbounded preceding) as island
    from (
        select
            *,
            coalesce(
                (attempt_id, launch_no, category, phase, cause, incident_id, rule, n_gpus)
                is distinct from lag((
                    attempt_id, launch_no, category, phase, cause, incident_id, rule, n_gpus))
                over (partition by run_id order by mark_no, from_us), true) as is_new
        from caused
    )
),

merged as (
    select
        run_id, island, attempt_id, launch_no, category, phase, cause, incident_id, rule, n_gpus,
        min(from_us) as from_us,
        max(to_us) as to_us,
        sum(performance_ratio * (to_us - from_us)) / sum(to_us - from_us) as performance_ratio,
        sum(n_steps)::bigint as n_steps,
        arg_min(file_id, mark_no) as file_id,
        arg_min(line, mark_no) as line,
        arg_min(byte_offset, mark_no) as byte_offset
    from islands
    group by all
)

select
    id_of(['segment', run_id, from_us::varchar]) as segment_id,
    run_id,
    attempt_id,
    launch_no,
    make_timestamptz(from_us) as start_at,
    make_timestamptz(to_us) as end_at,
    (to_us - from_us) / 1e6 as duration_s,
    category,
    phase,
    performance_ratio,
    n_steps,
    n_gpus::bigint as n_gpus,
    incident_id,
    cause,
    rule,
    file_id,
    line,
    byte_offset
from merged
order by run_id, from_us
