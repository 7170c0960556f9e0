-- One row per (attempt, launch, checkpoint) that a log saves or loads, with its folder: without the
-- number of the step, and a relative one below the working directory, else beside the log.
-- Reads: launch_line, launch_span, attempt_all.
select distinct
    s.attempt_id,
    s.cluster,
    s.file_id,
    s.launch_in_file,
    s.from_us,
    l.kind <> 'checkpoint_load' as is_save,
    l.step_to as step,
    case when l.checkpoint_path like '/%' or l.checkpoint_path like '%://%' then ''
        else coalesce(
            a.work_dir, regexp_replace(a.stdout_path, '/[^/]*$', ''),
            regexp_replace(s.path, '/[^/]*$', '')) || '/'
    end
    || regexp_replace(
        regexp_replace(rtrim(l.checkpoint_path, './'), '^(\./)+', ''),
        '/?(checkpoint-|step-|iter_0*|global_step|step_?|[^/]*step=)\d+([-.][^/]*)?(/.*)?$', ''
    ) as folder
from launch_line as l
join launch_span as s using (file_id, launch_in_file)
join attempt_all as a using (attempt_id)
where l.kind in ('checkpoint_save', 'checkpoint_commit', 'checkpoint_load')
    and l.checkpoint_path is not null
