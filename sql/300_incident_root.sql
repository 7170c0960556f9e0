-- One row per incident with facts: the fact that explains it best.
-- A root outranks what may be a root, kernel and device evidence outranks what ranks saw, a smaller
-- priority explains more, then the earlier line. Collectives, exits and bare tracebacks are only
-- hints: alone they leave an incident unattributed.
-- Reads: incident_fact.
with best as (
    select incident_id, file_id, seq, signature_id
    from incident_fact
    where role in ('root', 'either', 'symptom', 'cascade') and domain <> 'operator'
    qualify
        row_number() over (
            partition by incident_id
            order by
                case
                    when component like 'comm.%' or component like 'process.%'
                        or component = 'software.unknown' then 3
                    when role = 'root' then 0
                    when role = 'either' then 1
                    else 2
                end,
                case role
                    when 'root' then 0 when 'either' then 1 when 'symptom' then 2 else 3
                end,
                priority, stated_us nulls last, file_id, seq, signature_id
        ) = 1
)

select
    *,
    role in ('root', 'either')
    and component not like 'comm.%' and component not like 'process.%'
    and component <> 'software.unknown' as is_attributable
from incident_fact
semi join best using (incident_id, file_id, seq, signature_id)
