-- One row per failure, with the fact that explains it best (null: there is none) and its type.
-- What stops a process explains an end before what only slows or warns. A root outranks what may
-- be a root, kernel and device evidence outranks what ranks saw, a smaller priority explains more,
-- then the earlier line. Collectives, exits and bare tracebacks are only hints: alone they leave a
-- failure without a type.
-- Reads: failure, failure_fact, run_member.
with ranked as (
    select
        *,
        component like 'comm.%' or component like 'process.%' or component = 'software.unknown'
            as is_hint
    from failure_fact
    where role in ('root', 'either', 'symptom', 'cascade') and domain <> 'operator'
),

best as (
    select *
    from ranked
    qualify
        row_number() over (
            partition by failure_id
            order by
                is_hint, mode not in ('fail_stop', 'hang', 'fail_slow'), mode = 'fail_slow',
                case role
                    when 'root' then 0 when 'either' then 1 when 'symptom' then 2 else 3
                end,
                priority, stated_us nulls last, file_id, seq, signature_id
        ) = 1
)

select
    f.failure_id, f.kind, f.run_id, f.attempt_id, f.launch_no, f.slow_mark, f.onset_us, f.ended_us,
    f.resumed_us, m.end_kind,
    coalesce(b.role in ('root', 'either') and not b.is_hint, false) as is_attributable,
    case
        when f.kind = 'skips' then 'numerical.discarded_updates'
        when b.role in ('root', 'either') and not b.is_hint then b.component
        when f.kind = 'slow' then null
        when m.end_kind = 'node_fail' then 'scheduler.node_fail'
        when m.end_kind = 'oom' then 'host.memory'
        when m.end_kind in ('boot_fail', 'launch_fail') then 'scheduler.launch'
    end as type,
    b.signature_id, b.component, b.mode, b.domain, b.role, b.node, b.gpu, b.message, b.captures,
    b.file_id, b.seq, b.line, b.byte_offset
from failure as f
join run_member as m using (run_id, attempt_id)
left join best as b using (failure_id)
