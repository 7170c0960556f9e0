-- One row per accounting step.
-- Reads: attempt_step_all.
select
    attempt_id, cluster, native_id, step_id, job_name as step_name,
    make_timestamptz(start_at_us) as start_at,
    make_timestamptz(end_at_us) as end_at,
    state, exit_code, exit_signal, file_id, line, byte_offset
from attempt_step_all
order by cluster, native_id, start_at_us, step_id, file_id, line
