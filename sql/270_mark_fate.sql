-- One row per mark of a run behind another mark: what the time between them can be, by the fate of
-- the steps around it, by how the launch before ended (way_category) and how this one ended
-- (tail_category). silence_us: a launch may be silent so long before its end for nothing to be
-- wrong; a last save may last long_silence_us.
-- In the interval of a step line the time is cut: [prev_us, b1) initialisation, [b1, b2)
-- evaluation, [b2, b3) save, [b3, b4) unexplained, [b4, b5) warm-up, [b5, b6) kept steps, [b6, b7)
-- discarded updates, [b7, at_us) rolled back or uncommitted. A save or an evaluation with a time of
-- its own that begins inside the interval ends a part of it: there only [prev_us, at_us) counts.
-- Reads: mark, run_launch, rollback, failed_before, step_split.
with before as (
    -- how the launch before ended decides what the way to this one costs
    select
        run_id, launch_no, end_state, file_id is not null as has_log, end_kind, n_gpus,
        coalesce(is_fruitless, false) as is_fruitless, long_silence_us,
        -- without an end marker the log may have been cut
        case when has_shutdown then long_silence_us
            else greatest(60000000, 10 * usual_line_us)::bigint end as silence_us,
        lag(end_state) over runs as before_state,
        launch_no = 1 as is_first
    from run_launch
    window runs as (partition by run_id order by launch_no)
),

ways as (
    select
        *,
        case
            when is_first then 'startup'
            when before_state = 'failed' then 'recovery'
            when before_state in ('planned', 'completed') then 'planned'
            else 'unexplained'
        end as way_category,
        case
            when end_state = 'failed'
                and (has_log or is_fruitless or end_kind in ('boot_fail', 'launch_fail'))
                then 'recovery'
            when not has_log and not (is_fruitless and end_state = 'planned') then 'unexplained'
            when end_state = 'planned' then 'planned'
            when end_state = 'completed' then 'startup'
            else 'unexplained'
        end as tail_category
    from before
),

lost_tail as (
    -- a launch that was rolled back: what stood behind its last step is lost as well
    select r.run_id, r.launch_no, true as has_lost_tail,
        case when fb.failed_no >= r.launch_no then fb.failed_no end as tail_lost_by_no
    from (select run_id, launch_no, arg_max(cut_no, to_step) as cut_no from rollback group by all)
        as r
    join failed_before as fb on fb.run_id = r.run_id and fb.launch_no = r.cut_no
),

fates as (
    select
        m.run_id, m.launch_no, m.attempt_id, m.mark_no, m.place, m.what, m.prev_what, m.prev_us,
        m.at_us, m.is_async, m.step_seq, m.file_id, m.line, m.byte_offset,
        w.way_category, w.tail_category, w.has_log, w.n_gpus,
        case when s.seq is null then lt.tail_lost_by_no else s.lost_by_no end as lost_by_no,
        case
            when s.seq is null then coalesce(lt.has_lost_tail, false)
            -- what follows the last kept step is kept with it
            else s.n_lost = s.n_steps and s.step_from > s.lost_from
        end as is_lost_here,
        -- a last save without an end line, or without times, lasts until the end behind it
        m.what = 'save_end' or (
            (m.prev_what in ('save_begin', 'evaluation_save_begin')
                or m.prev_what = 'save_end' and not m.prev_is_timed)
            and (m.what = 'shutdown'
                or m.what in ('attempt_end', 'launch_end') and w.end_state = 'completed')
        ) as is_save,
        w.silence_us, w.long_silence_us,
        s.n_steps, s.n_kept, s.n_lost, s.n_discarded, s.n_uncommitted, s.steps_us,
        s.n_kept * s.ref_us as kept_us,
        -- slower than 1.2 x the reference by more than the clock's error
        s.steps_us > 1.2 * s.ref_steps_us and s.steps_us - s.ref_steps_us > 2e6 * s.time_error_s
            as is_slow,
        m.prev_us + round(s.initialisation_us)::bigint as b1_us,
        m.prev_us + round(s.initialisation_us + s.evaluation_us)::bigint as b2_us,
        m.prev_us + round(s.initialisation_us + s.evaluation_us + s.save_us)::bigint as b3_us,
        m.prev_us + round(
            s.initialisation_us + s.evaluation_us + s.save_us + s.unexplained_us)::bigint as b4_us,
        m.prev_us + round(
            s.initialisation_us + s.evaluation_us + s.save_us + s.unexplained_us + s.warm_up_us
        )::bigint as b5_us
    from mark as m
    join ways as w using (run_id, launch_no)
    left join step_split as s
        on s.run_id = m.run_id and s.launch_no = m.launch_no and s.seq = m.step_seq
        and m.place = 2
    left join lost_tail as lt using (run_id, launch_no)
    where m.prev_us is not null
)

select
    * exclude (steps_us),
    greatest(
        b5_us, at_us - round(steps_us * (n_steps - n_kept) / n_steps)::bigint) as b6_us,
    greatest(
        b5_us, at_us - round(steps_us * (n_lost + n_uncommitted) / n_steps)::bigint) as b7_us
from fates
