-- One row per used training-log line, with its launch and the instant that it states on the clock
-- of its attempt.
-- Reads: train_line_used, launch_bound, wild_stamp, clock_offset.
select
    t.* replace (
        case when wild.seq is null then t.stated_us + coalesce(o.offset_us, 0) end as stated_us),
    b.launch_in_file
from train_line_used as t
asof join launch_bound as b on t.file_id = b.file_id and t.seq >= b.seq_from
left join wild_stamp as wild on wild.file_id = t.file_id and wild.seq = t.seq
left join clock_offset as o on o.file_id = t.file_id
