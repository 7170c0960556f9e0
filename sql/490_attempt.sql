-- One row per attempt.
-- Reads: attempt_all.
select
    attempt_id, cluster, scheduler, job_id, native_id, array_job_id, array_task_id, job_name,
    "user",
    make_timestamptz(submit_at_us) as submit_at,
    make_timestamptz(eligible_at_us) as eligible_at,
    make_timestamptz(start_at_us) as start_at,
    make_timestamptz(end_at_us) as end_at,
    time_error_s, state, end_kind, exit_code, exit_signal, exit_trusted, n_nodes, n_gpus, nodes,
    failed_nodes, restart_count, never_started, is_open, is_runaway, work_dir, stdout_path, comment,
    submit_line, array_throttle, file_id, line, byte_offset
from attempt_all
order by cluster, start_at_us, attempt_id
