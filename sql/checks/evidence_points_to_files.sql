-- Every segment, incident and fault names a known file, a line in it and a byte.
select 'segment' as source, segment_id as id
from segment
where file_id is null or line is null or line < 1 or file_id not in (select file_id from file)
union all
select 'incident' as source, incident_id as id
from incident
where file_id is null or line is null or line < 1 or file_id not in (select file_id from file)
union all
select 'fault_event' as source, signature_id || ' ' || file_id || ':' || line as id
from fault_event
where line < 1 or byte_offset < 0 or file_id not in (select file_id from file)
order by all
