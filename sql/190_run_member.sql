-- One row per attempt that belongs to a run, with its place in it: attempts that started and
-- trained (a log says so) or held GPUs. Its run is named after the first attempt.
-- attempt_component holds the connected attempts, found in run_link.
-- Reads: attempt_all, attempt_component, launch_span, run_link, job_attempt.
with members as (
    select a.*, c.component
    from attempt_all as a
    join attempt_component as c using (attempt_id)
    where
        a.start_at_us is not null and not a.never_started and a.end_kind <> 'revoked'
        and (a.n_gpus > 0 or a.attempt_id in (select attempt_id from launch_span))
),

ordered as (
    select
        *,
        row_number() over run_order as ordinal,
        first_value(attempt_id) over run_order as first_attempt_id
    from members
    window run_order as (partition by component order by start_at_us, submit_at_us, attempt_id)
),

link as (
    select attempt_id, rule, confidence
    from run_link
    where is_used
    qualify row_number() over (
        partition by attempt_id order by confidence desc, rule, prev_attempt_id) = 1
),

evidence as (
    select attempt_id, max(until_us) as until_us
    from launch_span
    group by all
)

select
    'run-' || id_of(['run', o.first_attempt_id]) as run_id,
    o.* exclude (component, first_attempt_id),
    link.rule as link_rule,
    link.confidence as link_confidence,
    -- an open attempt reaches to the last thing that is known of it
    coalesce(
        o.end_at_us,
        evidence.until_us,
        o.start_at_us + accounting.elapsed_s * 1000000,
        o.start_at_us
    ) as until_us
from ordered as o
left join link using (attempt_id)
left join evidence using (attempt_id)
left join job_attempt as accounting using (attempt_id)
order by run_id, ordinal
