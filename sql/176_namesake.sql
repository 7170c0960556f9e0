-- One row per attempt, with the attempt before it of the same user, name and folder (without
-- accounting: of a log whose path differs in numbers only), and whether it continues what that and
-- those before it did: it resumes at a step that they reached, or could have reached until their
-- end behind their last line. An attempt without a log continues if the next one does. A fresh
-- start continues what failed before it had saved anything: there was nothing else to do.
-- Reads: attempt_all, launch_span, launch_line, checkpoint_place.
with logged as (
    select
        attempt_id,
        arg_min(coalesce(resume_step, first_step - 1), from_us) as resumes_at,
        max(last_step) as last_step,
        max(last_step_us) as last_step_us,
        max(usual_step_us) as step_us,
        max(usual_line_us) as line_us,
        max(total_steps) as total_steps,
        bool_or(is_fresh) as is_fresh,
        arg_min(path, from_us) as path
    from launch_span
    group by all
),

saves as (
    select attempt_id, list(distinct folder) as folders
    from checkpoint_place
    where is_save
    group by all
),

has_saved as (
    select distinct s.attempt_id
    from launch_line as l
    join launch_span as s using (file_id, launch_in_file)
    where l.kind in ('checkpoint_save', 'checkpoint_commit')
),

candidates as (
    select
        a.attempt_id, a.start_at_us, a.end_at_us, a.scheduler is null as is_log_only,
        l.attempt_id is not null as has_log, l.resumes_at, l.total_steps, l.is_fresh,
        saves.folders,
        l.attempt_id is not null and has_saved.attempt_id is null
            and a.end_kind not in ('completed', 'unknown', 'open') as failed_unsaved,
        -- what is behind the last line is unseen: at least up to one more line
        l.last_step + coalesce(
            greatest(l.line_us, a.end_at_us - l.last_step_us) / nullif(l.step_us, 0), 0
        ) as possible_step,
        [
            a.cluster,
            coalesce(a.scheduler, 'log'),
            a."user",
            case when a.scheduler is not null then a.job_name end,
            case when a.scheduler is not null
                then coalesce(a.work_dir, regexp_replace(a.stdout_path, '/[^/]*$', ''))
                else regexp_replace(l.path, '\d+', '#', 'g') end
        ] as name_key
    from attempt_all as a
    left join logged as l using (attempt_id)
    left join saves using (attempt_id)
    left join has_saved using (attempt_id)
    where a.start_at_us is not null and not a.never_started
        and (a.n_gpus > 0 or l.attempt_id is not null)
        and (a.scheduler is null or a.job_name is not null)
),

in_order as (
    select
        *,
        lag(attempt_id) over same as prev_attempt_id,
        lag(end_at_us) over same as prev_end_us,
        lag(folders) over same as prev_folders,
        lag(total_steps) over same as prev_total_steps,
        lag(failed_unsaved) over same as prev_failed_unsaved,
        max(possible_step) over (
            same rows between unbounded preceding and 1 preceding) as reached_step,
        first_value(resumes_at ignore nulls) over (
            same rows between 1 following and unbounded following) as next_resumes_at
    from candidates
    window same as (partition by name_key order by start_at_us, attempt_id)
)

select
    attempt_id, prev_attempt_id, is_log_only, start_at_us, prev_end_us, total_steps,
    prev_total_steps, resumes_at,
    coalesce(not list_has_any(folders, prev_folders), false) as saves_elsewhere,
    coalesce(
        case
            when is_fresh and prev_failed_unsaved then true
            when has_log then resumes_at > 0 and resumes_at <= reached_step
            else next_resumes_at > 0 and next_resumes_at <= reached_step
        end,
        false) as is_continued
from in_order
where prev_attempt_id is not null
