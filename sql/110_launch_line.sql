-- One row per used training-log line, with its launch.
-- Reads: train_line_used, launch_bound.
select t.*, b.launch_in_file
from train_line_used as t
asof join launch_bound as b on t.file_id = b.file_id and t.seq >= b.seq_from
