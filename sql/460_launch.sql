-- One row per process start of a run that a log shows.
-- Reads: run_launch.
select
    run_id,
    launch_no,
    attempt_id,
    file_id,
    launch_in_file::integer as launch_in_file,
    make_timestamptz(from_us) as start_at,
    make_timestamptz(
        case when is_last_of_attempt then attempt_until_us else until_us end) as end_at,
    first_step,
    last_step,
    end_state,
    end_rule,
    log_rule,
    log_confidence,
    offset_us / 1e6 as clock_offset_s
from run_launch
where file_id is not null
order by run_id, launch_no
