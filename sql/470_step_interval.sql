-- One row per step line that counts.
-- Reads: step_split.
select
    run_id,
    launch_no,
    attempt_id,
    step_from,
    step_to,
    n_steps,
    n_skipped,
    n_lost,
    make_timestamptz(last_part_from_us) as start_at,
    make_timestamptz(end_us) as end_at,
    steps_us / 1e6 as train_s,
    ref_steps_us / 1e6 as reference_s,
    file_id,
    line,
    byte_offset
from step_split
order by run_id, launch_no, mark_no
