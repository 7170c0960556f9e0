-- One row per attempt, from the accounting or from a log alone; instants in UTC microseconds.
-- Reads: job_attempt, launch_span.
select
    attempt_id, cluster, scheduler, job_id, native_id, array_job_id, array_task_id, array_throttle,
    job_name, "user", submit_at_us, eligible_at_us, start_at_us, end_at_us,
    1.0 as time_error_s, state, end_kind, exit_code, exit_signal, exit_trusted, n_nodes, n_gpus,
    nodes, failed_nodes, restart_count, coalesce(never_started, false) as never_started, is_open,
    is_runaway, work_dir, stdout_path, comment, submit_line, modified_us, file_id, line, byte_offset
from job_attempt
union all by name
-- launches whose clocks overlap, in one log or in several, are one attempt
select
    attempt_id,
    any_value(cluster) as cluster,
    arg_min(file_name, from_us) as job_name,
    min(from_us) as start_at_us,
    max(until_us) as end_at_us,
    'unknown' as end_kind,
    max(world_size)::integer as n_gpus,
    false as never_started, false as is_open, false as is_runaway,
    arg_min(file_id, from_us) as file_id,
    arg_min(first_line, from_us) as line,
    arg_min(first_byte_offset, from_us) as byte_offset
from launch_span
where is_log_only
group by attempt_id
