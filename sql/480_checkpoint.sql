-- One row per checkpoint save of a run.
-- Reads: checkpoint_line.
select
    run_id,
    launch_no,
    step,
    make_timestamptz(at_us) as begin_at,
    make_timestamptz(durable_us) as durable_at,
    is_durable,
    is_async,
    checkpoint_tier as tier,
    checkpoint_path as path,
    file_id,
    line,
    byte_offset,
    seq
from checkpoint_line
order by run_id, launch_no, seq
