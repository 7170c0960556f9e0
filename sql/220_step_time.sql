-- One row per step line of a run: the time since the mark before it and what else lies in between.
-- train_us is what was left for the steps after timed saves and evaluations were taken out.
-- Updates that another line says were discarded count for the step that ended next, by time.
-- Reads: mark, step_line, run_launch, launch_line, event_clock, save_end.
with parts as (
    select
        run_id, launch_no, step_seq,
        sum(at_us - prev_us) filter (what in ('step', 'save_begin', 'evaluation_begin'))
            as train_us,
        bool_or(
            (what = 'save_begin' and not is_timed and not is_async)
            or (what = 'save_end' and not is_timed)) as has_untimed_save,
        bool_or(what = 'evaluation_end' and not is_timed)
            and not bool_or(what = 'evaluation_save_begin') as has_untimed_evaluation,
        bool_or(what <> 'step') as has_interruption,
        bool_or(what in ('save_begin', 'evaluation_save_begin') and not is_async)
            and not bool_or(what = 'save_end') as has_endless_save
    from mark
    where place = 2 and step_seq is not null
        and what in (
            'step', 'save_begin', 'save_end', 'evaluation_begin', 'evaluation_end',
            'evaluation_save_begin')
    group by all
),

ends as (
    select run_id, launch_no, seq, at_us
    from mark
    where what = 'step'
),

discarded as (
    select ends.run_id, ends.launch_no, ends.seq, count(*) as n_discarded
    from launch_line as l
    join run_launch as r using (file_id, launch_in_file)
    join event_clock as c using (file_id, seq)
    -- a second of slack: the line may come from another clock
    asof join ends
        on ends.run_id = r.run_id and ends.launch_no = r.launch_no
        and c.at_us - 1000000 <= ends.at_us
    where l.kind = 'anomaly' and l.detail in ('overflow_skip', 'update_discarded')
    group by all
),

-- a save of which only the end is printed stands before the step line behind it
late_saves as (
    select distinct ends.run_id, ends.launch_no, ends.seq
    from save_end as e
    join run_launch as r using (file_id, launch_in_file)
    asof join ends
        on ends.run_id = r.run_id and ends.launch_no = r.launch_no and ends.seq >= e.seq
    where e.is_late and not e.is_commit
)

select
    m.run_id, m.ordinal, m.launch_no, m.attempt_id, m.file_id, m.seq, m.line, m.byte_offset,
    m.mark_no, m.prev_us as last_part_from_us, m.at_us as end_us, m.prev_what, m.time_error_s,
    s.step_from, s.step_to, s.n_steps,
    least(coalesce(s.skipped_steps, d.n_discarded, 0), s.n_steps) as n_skipped,
    s.step_ms * s.n_steps * 1000 as stated_us,
    s.global_batch,
    coalesce(r.n_gpus, r.world_size) as world_size,
    s.step_from - r.first_step as steps_before,
    p.train_us, p.has_interruption,
    p.has_untimed_save or p.has_endless_save
        or v.seq is not null and s.step_ms is not null as has_untimed_save,
    p.has_untimed_evaluation
from mark as m
join step_line as s using (file_id, seq)
join run_launch as r using (run_id, launch_no)
join parts as p
    on p.run_id = m.run_id and p.launch_no = m.launch_no and p.step_seq = m.seq
left join late_saves as v
    on v.run_id = m.run_id and v.launch_no = m.launch_no and v.seq = m.seq
left join discarded as d
    on d.run_id = m.run_id and d.launch_no = m.launch_no and d.seq = m.seq
where m.what = 'step'
