-- One row per (log file, attempt) that belong together, with the rule that says so.
-- Reads: step_source, fault_match, file_state, job_attempt.
-- Rules: stdout (the job's output path, pattern letters of sbatch filled in), job_id_in_name (the
-- id stands in the file's name), job_id_in_log (a banner in the file names the job).
with logs as (
    select f.file_id, f.cluster, f.path, f.file_name
    from file_state as f
    where f.file_id in (select file_id from step_source union select file_id from fault_match)
),

started as (
    select
        attempt_id, cluster, native_id, job_id, start_at_us,
        replace(replace(replace(replace(replace(replace(
            stdout_path, '%j', native_id), '%A', coalesce(array_job_id::varchar, job_id)),
            '%a', coalesce(array_task_id::varchar, '%a')), '%x', coalesce(job_name, '%x')),
            '%u', coalesce("user", '%u')), '%%', '%') as stdout_path
    from job_attempt
    where start_at_us is not null and not never_started
),

by_stdout as (
    select
        logs.file_id, started.attempt_id, 'stdout' as log_rule,
        case when logs.path = started.stdout_path then 1.0 else 0.95 end as log_confidence
    from logs
    join started
        on logs.cluster = started.cluster
        and logs.file_name = parse_filename(started.stdout_path)
    -- an equal name in another folder only counts when no path is equal
    qualify log_confidence = max(log_confidence) over (partition by logs.file_id)
),

name_numbers as (
    select file_id, cluster, unnest(regexp_extract_all(file_name, '\d+')) as number
    from logs
),

by_name as (
    select
        n.file_id, started.attempt_id, 'job_id_in_name' as log_rule, 0.95 as log_confidence
    from name_numbers as n
    join started
        on n.cluster = started.cluster and n.number in (started.native_id, started.job_id)
    where length(n.number) >= 3
),

by_banner as (
    select distinct
        fault_match.file_id, started.attempt_id, 'job_id_in_log' as log_rule, 0.9 as log_confidence
    from fault_match
    join started
        on fault_match.cluster = started.cluster
        and split_part(fault_match.captures['id'], '.', 1) = started.native_id
    where
        fault_match.signature_id like 'slurm.%'
        and fault_match.file_id in (select file_id from logs)
),

every_reason as (
    select * from by_stdout
    union all
    select * from by_name
    union all
    select * from by_banner
)

select distinct on (file_id, attempt_id) *
from every_reason
-- the strongest reason of a file speaks for it alone
qualify log_confidence = max(log_confidence) over (partition by file_id)
order by file_id, attempt_id, log_confidence desc, log_rule
