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
        count(*) as n_lines,
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
        max(c.at_us) as last_step_us,
        (max(c.at_us) - min(c.at_us)) / nullif(count(*) - 1, 0) as usual_line_us,
        (max(c.at_us) - min(c.at_us)) / nullif(max(s.step_to) - min(s.step_to), 0)
            as usual_step_us
    from step_line as s
    join event_clock as c using (file_id, seq)
    group by all
),

-- logs of which only the number of a rank or node differs, at one time, tell of one process start
labelled as (
    select
        la.*,
        f.cluster,
        f.path,
        f.file_name,
        least(la.first_us, e.first_event_us) as from_us,
        greatest(la.last_us, e.last_event_us) as until_us,
        e.* exclude (file_id, launch_in_file),
        coalesce(steps.n_step_lines, 0) as n_step_lines,
        steps.* exclude (file_id, launch_in_file, n_step_lines),
        case
            when la.attempt_id is null then regexp_replace(
                f.path, '(rank|node|worker|host|proc|gpu)[-_.]?\d+', '\1', 'gi')
        end as log_key
    from launch_attempt as la
    join events as e using (file_id, launch_in_file)
    left join steps using (file_id, launch_in_file)
    join file_state as f using (file_id)
),

stretches as (
    select
        *,
        coalesce(max(until_us) over (
            partition by cluster, log_key order by from_us, file_id, launch_in_file
            rows between unbounded preceding and 1 preceding) > from_us, false) as is_with_before
    from labelled
),

grouped as (
    select
        *,
        sum((not is_with_before)::integer) over (
            partition by cluster, log_key order by from_us, file_id, launch_in_file
            rows unbounded preceding) as stretch
    from stretches
),

spans as (
    select
        * exclude (attempt_id, is_with_before, stretch),
        attempt_id is null as is_log_only,
        coalesce(
            attempt_id,
            first_value(id_of(['log', cluster, file_id, launch_in_file::varchar])) over (
                partition by cluster, log_key, stretch
                order by n_step_lines desc, n_lines desc, file_id, launch_in_file)
        ) as attempt_id
    from grouped
),

-- kept: no log of more steps tells of the same time ...
best as (
    select s.file_id, s.launch_in_file
    from spans as s
    anti join spans as other
        on other.attempt_id = s.attempt_id
        and other.file_id <> s.file_id
        and other.from_us < s.until_us and s.from_us < other.until_us
        and (other.n_step_lines, other.n_lines, other.file_id)
            > (s.n_step_lines, s.n_lines, s.file_id)
),

kept as (
    select spans.*
    from spans
    semi join best using (file_id, launch_in_file)
)

select * from kept
union all by name
-- ... or only such as are themselves not kept
select s.*
from spans as s
anti join kept as other
    on other.attempt_id = s.attempt_id
    and other.from_us < s.until_us and s.from_us < other.until_us
anti join best on best.file_id = s.file_id and best.launch_in_file = s.launch_in_file
