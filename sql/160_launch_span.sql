-- One row per launch of a log, with its extent in time and steps, and the attempt it ran in; a
-- launch that no accounting knows is an attempt of its own. Of several logs of one attempt that
-- tell of the same time (one per rank) the one with most steps is kept.
-- Reads: launch_attempt, launch_line, step_line, event_clock, file_state.
with events as (
    select
        l.file_id, l.launch_in_file,
        min(c.at_us) as first_event_us,
        max(c.at_us) as last_event_us,
        min(l.seq) as first_seq,
        arg_min(l.line, l.seq) as first_line,
        arg_min(l.byte_offset, l.seq) as first_byte_offset,
        max(l.world_size) as world_size,
        max(l.total_steps) as total_steps,
        bool_or(l.kind = 'fresh_start') as is_fresh,
        arg_max(l.detail, l.seq) filter (l.kind = 'shutdown') as shutdown_detail,
        max(l.seq) filter (l.kind = 'shutdown') as shutdown_seq
    from launch_line as l
    join event_clock as c using (file_id, seq)
    group by all
),

steps as (
    select
        s.file_id, s.launch_in_file,
        count(*) as n_step_lines,
        arg_min(s.step_from, s.seq) as first_step,
        max(s.step_to) as last_step,
        any_value(s.resume_step) as resume_step,
        min(s.seq) as first_step_seq,
        max(s.seq) as last_step_seq,
        max(s.seq, 2)[2] as before_last_step_seq,
        max(c.at_us) as last_step_us
    from step_line as s
    join event_clock as c using (file_id, seq)
    group by all
),

spans as (
    select
        la.* exclude (attempt_id),
        la.attempt_id is null as is_log_only,
        coalesce(
            la.attempt_id,
            id_of(['log', f.cluster, la.file_id, la.launch_in_file::varchar])
        ) as attempt_id,
        f.cluster,
        f.file_name,
        least(la.first_us, e.first_event_us) as from_us,
        greatest(la.last_us, e.last_event_us) as until_us,
        e.* exclude (file_id, launch_in_file),
        coalesce(steps.n_step_lines, 0) as n_step_lines,
        steps.* exclude (file_id, launch_in_file, n_step_lines)
    from launch_attempt as la
    join events as e using (file_id, launch_in_file)
    left join steps using (file_id, launch_in_file)
    join file_state as f using (file_id)
)

select s.*
from spans as s
anti join spans as other
    on other.attempt_id = s.attempt_id
    and other.file_id <> s.file_id
    and other.from_us < s.until_us and s.from_us < other.until_us
    and (other.n_step_lines, other.file_id) > (s.n_step_lines, s.file_id)
