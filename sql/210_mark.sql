-- One row per mark of a run, in the run's order: what the time since the mark before it was.
-- Marks never go back in time and never leave their attempt.
-- Reads: run_member, run_launch, launch_line, event_clock, step_line, save_end.
with event_marks as (
    select
        r.run_id, r.ordinal, r.launch_no, r.attempt_id, 2 as place, l.seq, c.at_us,
        -- one line can tell of a whole save, at its end
        case when l.kind = 'checkpoint_save' and l.phase = 'instant'
            then l.duration_ms * 1000 end::bigint as whole_save_us,
        case
            when l.kind = 'step' then 'step'
            when l.kind = 'checkpoint_save' and (l.phase = 'end' or whole_save_us is not null)
                then 'save_end'
            when l.kind = 'checkpoint_save' then 'save_begin'
            when l.kind = 'evaluation' and l.phase = 'begin' then 'evaluation_begin'
            when l.kind = 'evaluation' then 'evaluation_end'
            when l.kind = 'checkpoint_load' and l.phase = 'begin' then 'load_begin'
            when l.kind = 'checkpoint_load' then 'load_end'
            when l.kind = 'shutdown' then 'shutdown'
            when l.kind = 'train_start' then 'train_start'
            when l.kind = 'compile' then 'compile'
            else 'start'
        end as what,
        coalesce(l.is_async, false) as is_async,
        c.time_source in ('inline', 'prefix') or l.duration_ms is not null as is_timed,
        c.time_error_s, l.file_id, l.line, l.byte_offset
    from launch_line as l
    join run_launch as r using (file_id, launch_in_file)
    join event_clock as c using (file_id, seq)
    left join step_line as s using (file_id, seq)
    left join save_end using (file_id, seq)
    where
        is_start_kind(l.kind)
        -- a late start marker of another rank cuts no step
        and l.seq < coalesce(r.first_step_seq, 9223372036854775807)
        or l.kind in ('evaluation', 'shutdown')
        or l.kind = 'checkpoint_save' and save_end.is_late is distinct from true
        or s.seq is not null
),

save_marks as (
    select
        * exclude (at_us, whole_save_us, what), at_us - whole_save_us as at_us,
        'save_begin' as what, true as is_before
    from event_marks
    where whole_save_us is not null
),

launch_marks as (
    select
        run_id, ordinal, launch_no, attempt_id, 1 as place, from_us as at_us, 'launch_sign' as what,
        file_id, first_line as line, first_byte_offset as byte_offset
    from run_launch
    where file_id is not null
    union all by name
    select
        run_id, ordinal, launch_no, attempt_id, 3 as place, until_us as at_us, 'launch_end' as what,
        file_id, first_line as line, first_byte_offset as byte_offset
    from run_launch
    where file_id is not null and not is_last_of_attempt
),

attempt_marks as (
    -- launch_no of the gaps: the launch before them, whose end they follow
    select
        m.run_id, m.ordinal, first_launch.launch_no, m.attempt_id, -1 as place,
        least(m.submit_at_us, m.start_at_us) as at_us,
        case when m.native_id = p.native_id then 'requeued' else 'resubmitted' end as what,
        m.file_id, m.line, m.byte_offset
    from run_member as m
    join run_member as p on p.run_id = m.run_id and p.ordinal = m.ordinal - 1
    join (select run_id, ordinal, min(launch_no) as launch_no from run_launch group by all)
        as first_launch on first_launch.run_id = m.run_id and first_launch.ordinal = m.ordinal
    where m.submit_at_us is not null
    union all by name
    select
        m.run_id, m.ordinal, first_launch.launch_no, m.attempt_id, 0 as place,
        m.start_at_us as at_us,
        case when m.scheduler is null then 'attempt_seen' else 'attempt_start' end as what,
        m.file_id, m.line, m.byte_offset
    from run_member as m
    join (select run_id, ordinal, min(launch_no) as launch_no from run_launch group by all)
        as first_launch on first_launch.run_id = m.run_id and first_launch.ordinal = m.ordinal
    union all by name
    select
        m.run_id, m.ordinal, last_launch.launch_no, m.attempt_id, 4 as place,
        m.until_us as at_us, 'attempt_end' as what, m.file_id, m.line, m.byte_offset
    from run_member as m
    join (select run_id, ordinal, max(launch_no) as launch_no from run_launch group by all)
        as last_launch on last_launch.run_id = m.run_id and last_launch.ordinal = m.ordinal
),

every_mark as (
    select * exclude (whole_save_us) from event_marks
    union all by name
    select * from save_marks
    union all by name
    select * from launch_marks
    union all by name
    select * from attempt_marks
),

inside as (
    select
        e.* exclude (at_us, seq, is_before),
        coalesce(e.seq, 0) as seq,
        coalesce(e.is_before, false) as is_before,
        case
            when e.place = -1 then e.at_us
            else greatest(least(e.at_us, m.until_us), m.start_at_us)
        end as at_us
    from every_mark as e
    join run_member as m on m.run_id = e.run_id and m.ordinal = e.ordinal
),

forward as (
    select
        * exclude (at_us),
        max(at_us) over run_order as at_us
    from inside
    window run_order as (
        partition by run_id order by ordinal, launch_no, place, seq, is_before desc
        rows unbounded preceding)
)

select
    * replace (
        -- an evaluation without a time of its own ends where the save behind it begins
        case
            when what = 'save_begin' and is_timed
                and lag(what) over run_order = 'evaluation_end'
                and not lag(is_timed) over run_order then 'evaluation_save_begin'
            else what
        end as what),
    lag(at_us) over run_order as prev_us,
    lag(what) over run_order as prev_what,
    lag(is_timed) over run_order as prev_is_timed,
    first_value(case when what = 'step' then seq end ignore nulls) over to_come as step_seq,
    row_number() over run_order as mark_no
from forward
window
    run_order as (
        partition by run_id order by ordinal, launch_no, place, seq, is_before desc),
    to_come as (
        partition by run_id, launch_no order by ordinal, place, seq, is_before desc
        rows between current row and unbounded following)
