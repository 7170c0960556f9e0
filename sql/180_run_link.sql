-- One row per reason to put two attempts into one run.
-- Rules and confidences: an explicit run id (E1, 1.0), a requeue of the same job (E2, 0.99), a
-- checkpoint of the one loaded by the other (E4, 0.95), starts in one log (file, 0.9), a serial
-- array (E5, 0.9), same user, name and folder (E7, 0.6; with continuing step numbers 0.86).
-- A link of 0.85 or more is used; the others are suggestions.
-- Reads: attempt_all, launch_span, launch_line, event_clock.
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
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'E1' as rule,
        1.0 as confidence, 'run id ' || explicit_id as evidence
    from started
    where explicit_id is not null
    window same as (partition by cluster, explicit_id order by start_at_us, attempt_id)
),

requeued as (
    select
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'E2' as rule,
        case
            -- ids are used again after years: then it is another job
            when submit_at_us - lag(end_at_us) over same > 30 * 86400000000 then 0.3
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
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'E5' as rule,
        case when start_at_us >= lag(end_at_us) over same then 0.9 else 0.1 end as confidence,
        'array ' || array_job_id || ', one task at a time' as evidence
    from started
    where array_job_id in (select array_job_id from attempt_all where array_throttle = 1)
    window same as (partition by cluster, array_job_id order by start_at_us, attempt_id)
),

checkpoint_lines as (
    select
        s.attempt_id, s.cluster, s.from_us, l.kind, l.step_to,
        regexp_replace(
            rtrim(l.checkpoint_path, './'),
            '/?(checkpoint-|step-|iter_0*|global_step|step_?)\d+(/.*)?$', '') as folder,
        l.seq
    from launch_line as l
    join launch_span as s using (file_id, launch_in_file)
    where l.kind in ('checkpoint_save', 'checkpoint_commit', 'checkpoint_load')
        and l.checkpoint_path is not null
),

loaded as (
    select distinct load.attempt_id, save.attempt_id as prev_attempt_id, save.from_us, save.folder,
        save.step_to
    from checkpoint_lines as load
    join checkpoint_lines as save
        on load.cluster = save.cluster
        and load.folder = save.folder
        and load.step_to = save.step_to
        and save.from_us < load.from_us
        and save.attempt_id <> load.attempt_id
    where load.kind = 'checkpoint_load' and save.kind in ('checkpoint_save', 'checkpoint_commit')
),

continued as (
    select
        prev_attempt_id, attempt_id, 'E4' as rule, 0.95 as confidence,
        'loads step ' || step_to || ' of ' || folder as evidence
    from loaded
    qualify
        row_number() over (
            partition by attempt_id order by from_us desc, step_to desc, prev_attempt_id) = 1
),

same_log as (
    select
        lag(attempt_id) over same as prev_attempt_id, attempt_id, 'file' as rule,
        case
            when total_steps <> lag(total_steps) over same then 0.4
            when is_fresh and lag(last_step) over same is not null then 0.5
            else 0.9
        end as confidence,
        'launch ' || launch_in_file || ' of one log' as evidence
    from launch_span
    where is_log_only
    window same as (partition by file_id order by launch_in_file)
),

steps_of_attempt as (
    select
        attempt_id,
        arg_min(coalesce(resume_step, first_step - 1), from_us) as resumes_at,
        max(last_step) as last_step
    from launch_span
    group by all
),

alike as (
    select
        lag(s.attempt_id) over same as prev_attempt_id, s.attempt_id, 'E7' as rule,
        case
            when s.start_at_us < lag(s.end_at_us) over same then 0.1
            when s.start_at_us - lag(s.end_at_us) over same > 86400000000 then 0.3
            when p.resumes_at > 0 and p.resumes_at <= lag(p.last_step) over same then 0.86
            else 0.6
        end as confidence,
        case
            when s.start_at_us < lag(s.end_at_us) over same then 'same name and folder, but overlap'
            when p.resumes_at > 0 and p.resumes_at <= lag(p.last_step) over same
                then 'same name and folder, continues at step ' || p.resumes_at
            else 'same user, name and folder'
        end as evidence
    from started as s
    left join steps_of_attempt as p using (attempt_id)
    where s.scheduler is not null and s.job_name is not null
        and (s.n_gpus > 0 or p.attempt_id is not null)
    window same as (
        partition by s.cluster, s."user", s.job_name,
            coalesce(s.work_dir, regexp_replace(s.stdout_path, '/[^/]*$', ''))
        order by s.start_at_us, s.attempt_id)
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
)

select
    prev_attempt_id, attempt_id, rule, confidence, confidence >= 0.85 as is_used, evidence
from every_link
where prev_attempt_id is not null
order by attempt_id, prev_attempt_id, rule
