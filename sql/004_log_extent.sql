-- One row per file of a log of several files that has facts: how many, where, and what the first
-- one says.
-- Reads: log_file, raw_train_event, raw_fault_event, raw_clock_mark.
select
    file_id,
    -- a last line without its end may say something else than it will
    count(*) filter (byte_offset < tail_offset) as n_whole,
    min(seq) as first_seq,
    arg_min(said, seq) as first_said,
    max(byte_offset) as last_byte
from log_fact()
join log_file using (file_id)
group by file_id
