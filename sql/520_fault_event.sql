-- One row per line that a failure signature matched.
-- Reads: fault_line.
select
    signature_id, component, mode, domain, role, priority,
    make_timestamptz(stated_us) as occurred_at,
    case when stated_us is not null then coalesce(stamp_source, 'inline') end as time_source,
    case when stated_us is not null then coalesce(stamp_resolution_s, 1) end as time_error_s,
    rank, node, gpu, count, captures, message, file_id, line, byte_offset, seq
from fault_line
order by file_id, seq, signature_id
