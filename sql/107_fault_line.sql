-- One row per line that a signature matched, with the instant that it states, on the clock of its
-- attempt.
-- Reads: fault_match, wild_stamp, clock_offset.
select
    m.* replace (
        case when wild.seq is null then m.stated_us + coalesce(o.offset_us, 0) end as stated_us)
from fault_match as m
left join wild_stamp as wild on wild.file_id = m.file_id and wild.seq = m.seq
left join clock_offset as o on o.file_id = m.file_id
