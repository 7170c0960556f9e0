-- One row per fact that speaks of an incident, and the accounting rows of the attempts that it
-- ended.
-- Reads: failure_fact, incident_root, failure, incident_member, run_launch, run_member.
with facts as (
    select distinct
        m.incident_id, f.signature_id, f.role, f.stated_us, f.node, f.rank, f.count, f.message,
        f.file_id, f.line, f.byte_offset, f.seq
    from failure_fact as f
    join incident_member as m using (failure_id)
)

select
    f.* exclude (stated_us),
    r.incident_id is not null as is_root,
    make_timestamptz(f.stated_us) as occurred_at
from facts as f
left join incident_root as r
    on r.incident_id = f.incident_id and r.file_id = f.file_id and r.seq = f.seq
    and r.signature_id = f.signature_id
union all by name
select distinct
    i.incident_id,
    null as signature_id,
    'accounting' as role,
    false as is_root,
    make_timestamptz(m.until_us) as occurred_at,
    1 as count,
    'state ' || m.state as message,
    m.file_id, m.line, m.byte_offset,
    m.byte_offset as seq
from failure as e
join incident_member as i using (failure_id)
join run_launch as r using (run_id, launch_no)
join run_member as m on m.run_id = e.run_id and m.attempt_id = e.attempt_id
where m.scheduler is not null and r.is_last_of_attempt and e.kind = 'end'
order by incident_id, is_root desc, occurred_at nulls last, file_id, seq, signature_id
