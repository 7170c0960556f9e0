-- One row per reason to put two attempts into one run.
-- Rules and confidences: an explicit run id (E1, 1.0), a requeue of the same job (E2, 0.99), a
-- checkpoint of the one loaded by the other (E4, 0.95), starts in one log (file, 0.9), a serial
-- array (E5, 0.9), same user, name and folder (E7, 0.6; with continuing step numbers 0.86).
-- A link of 0.85 or more is used; the others are suggestions.
-- Reads: attempt_all, launch_span, checkpoint_load, namesake.
with started as (
    select
        *,
        nullif(regexp_extract(
            coalesce(comment, '') || ' ' || coalesce(submit_line, ''),
            '(?i)\brun[_-]?id[=:]\s*"?([\w.-]+)', 1), '') as explicit_id
    from attempt_all
    where start_at_us is not null and not never_started
),

explicit as (
    select
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'E1' as rule, 1.0 as confidence,
        'run id ' || explicit_id as evidence
    from started
    where explicit_id is not null
    window same as (partition by cluster, explicit_id order by start_at_us, attempt_id)
),

requeued as (
    select
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'E2' as rule,
        case
            -- ids are used again after years: then it is another job
            when submit_at_us - lag(end_at_us) over same > 7 * 86400000000 then 0.3
            else 0.99
        end as confidence,
        'job id ' || native_id as evidence
    from started
    where native_id is not null
    window same as (
        partition by cluster, native_id, "user", job_name order by submit_at_us, attempt_id)
),

serial_array as (
    select
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'E5' as rule, 0.9 as confidence,
        'array ' || array_job_id || ', one task at a time' as evidence
    from started
    where (cluster, array_job_id) in (
        select (cluster, array_job_id) from attempt_all where array_throttle = 1)
    window same as (partition by cluster, array_job_id order by start_at_us, attempt_id)
),

continued as (
    select
        prev_attempt_id, attempt_id, 'E4' as rule,
        case when is_elsewhere or is_anew then 0.3 else 0.95 end as confidence,
        'loads step ' || step || ' of ' || folder
        || case
            when is_elsewhere then ', but saves elsewhere'
            when is_anew then ', but counts its steps anew'
            else ''
        end as evidence
    from checkpoint_load
),

same_log as (
    select
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'file' as rule,
        case
            when total_steps <> lag(total_steps) over same then 0.4
            -- started afresh behind a run that had reached its end
            when is_fresh and (
                lag(shutdown_detail) over same = 'completed'
                or lag(last_step) over same >= lag(total_steps) over same) then 0.4
            else 0.9
        end as confidence,
        'launch ' || row_number() over same || ' of one log' as evidence
    from launch_span
    where is_log_only
    window same as (partition by cluster, log_key order by from_us, file_id, launch_in_file)
),

alike as (
    select
        prev_attempt_id, attempt_id, 'E7' as rule,
        case
            when start_at_us - prev_end_us > 86400000000 then 0.3
            when saves_elsewhere or total_steps <> prev_total_steps then 0.3
            when is_continued then 0.86
            else 0.6
        end as confidence,
        case when is_log_only then 'same log name and folder' else 'same user, name and folder' end
        || case
            when saves_elsewhere then ', but saves elsewhere'
            when total_steps <> prev_total_steps then ', but another number of steps'
            when is_continued and resumes_at is null then ', and the next one continues'
            when is_continued then ', continues behind step ' || resumes_at
            else ''
        end as evidence
    from namesake
),

every_link as (
    select * from explicit
    union all by name
    select * from requeued
    union all by name
    select * from continued
    union all by name
    select * from same_log
    union all by name
    select * from serial_array
    union all by name
    select * from alike
),

-- one run does not do two things at once: a minute of slack for the clocks
judged as (
    select
        l.prev_attempt_id, l.attempt_id, l.rule, l.evidence,
        case when a.start_at_us < p.end_at_us - 60000000 then least(l.confidence, 0.2)
            else l.confidence end as confidence,
        coalesce(a.start_at_us < p.end_at_us - 60000000, false) as is_at_once
    from every_link as l
    join started as a on a.attempt_id = l.attempt_id
    join started as p on p.attempt_id = l.prev_attempt_id
)

select
    prev_attempt_id, attempt_id, rule, confidence, confidence >= 0.85 as is_used,
    evidence || case when is_at_once then ', but both ran at once' else '' end as evidence
from judged
order by attempt_id, prev_attempt_id, rule
