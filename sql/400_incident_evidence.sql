-- One row per fact that speaks of an incident, and the accounting row of the attempt that it ended.
-- Reads: incident_fact, incident_root, incident_end, run_launch, run_member.
select
    f.incident_id,
    f.signature_id,
    f.role,
    r.incident_id is not null as is_root,
    make_timestamptz(f.stated_us) as occurred_at,
    f.node,
    f.rank,
    f.count,
    f.message,
    f.file_id,
    f.line,
    f.byte_offset,
    f.seq
from incident_fact as f
left join incident_root as r
    on r.incident_id = f.incident_id and r.file_id = f.file_id and r.seq = f.seq
    and r.signature_id = f.signature_id
union all by name
select
    e.incident_id,
    null as signature_id,
    'accounting' as role,
    false as is_root,
    make_timestamptz(m.until_us) as occurred_at,
    1 as count,
    'state ' || m.state as message,
    m.file_id, m.line, m.byte_offset,
    m.byte_offset as seq
from incident_end as e
join run_launch as r using (run_id, launch_no)
join run_member as m on m.run_id = e.run_id and m.attempt_id = e.attempt_id
where m.scheduler is not null and r.is_last_of_attempt and not e.is_skips
order by incident_id, is_root desc, occurred_at nulls last, file_id, seq, signature_id
