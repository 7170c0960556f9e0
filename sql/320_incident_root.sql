-- One row per incident: the failure of its chain that explains it best. A cause that any failure of
-- the chain shows is the cause of all of it; the first one counts.
-- Reads: failure_root, incident_member.
select m.incident_id, f.*
from failure_root as f
join incident_member as m using (failure_id)
qualify
    row_number() over (
        partition by m.incident_id
        order by not f.is_attributable, f.type is null, f.signature_id is null, f.launch_no) = 1
