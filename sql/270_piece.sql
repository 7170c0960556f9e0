-- One row per piece of a run's wall clock, in order: [from_us, to_us). The pieces tile the run, since
-- each reaches from the mark before it to its own mark.
-- blame_no: the launch whose end is the cause; blame_skips: the cause is discarded updates.
-- Reads: mark, step_split, run_launch.
with before as (
    -- how the launch before ended decides what the way to this one costs
    select
        run_id, launch_no, end_state, has_successor, file_id is not null as has_log, end_kind, n_gpus,
        first_step_seq,
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
            when end_state = 'failed' and (has_log or end_kind in ('boot_fail', 'launch_fail'))
                then 'recovery'
            when not has_log then 'unexplained'
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

marks as (
    select
        m.*, w.* exclude (run_id, launch_no),
        case when s.seq is null then lt.tail_lost_by_no else s.lost_by_no end as lost_by_no,
        case
            when s.seq is null then coalesce(lt.has_lost_tail, false)
            -- what follows the last kept step is kept with it
            else s.n_lost = s.n_steps and s.step_from > s.lost_from
        end as is_lost_here,
        -- a last save without an end line lasts until the end marker behind it
        m.what = 'save_end' or (
            m.what = 'shutdown' and m.prev_what in ('save_begin', 'evaluation_save_begin')
        ) as is_save, s.n_steps, s.n_lost, s.n_uncommitted,
        greatest(least(s.n_skipped, s.n_steps - s.n_lost - s.n_uncommitted), 0) as n_discarded,
        s.initialisation_us, s.evaluation_us, s.save_us, s.unexplained_us, s.warm_up_us, s.steps_us,
        s.ref_us, s.ref_steps_us, s.time_error_s as step_error_s,
    from mark as m
    join ways as w using (run_id, launch_no)
    left join step_split as s
        on s.run_id = m.run_id and s.launch_no = m.launch_no and s.seq = m.step_seq and m.place = 2
    left join lost_tail as lt using (run_id, launch_no)
    where m.prev_us is not null
),

bounded as (
    select
        *,
        prev_us + round(initialisation_us)::bigint as b1_us,
        prev_us + round(initialisation_us + evaluation_us)::bigint as b2_us,
        prev_us + round(initialisation_us + evaluation_us + save_us)::bigint as b3_us,
        prev_us + round(initialisation_us + evaluation_us + save_us + unexplained_us)::bigint
            as b4_us,
        prev_us + round(
            initialisation_us + evaluation_us + save_us + unexplained_us + warm_up_us)::bigint
            as b5_us,
        n_steps - n_lost - n_uncommitted - n_discarded as n_kept
    from marks
),

cut as (
    select
        *,
        greatest(
            b5_us, at_us - round(steps_us * (n_steps - n_kept) / n_steps)::bigint) as b6_us,
        greatest(
            b5_us, at_us - round(steps_us * (n_lost + n_uncommitted) / n_steps)::bigint) as b7_us
    from bounded
),

-- one branch per use of time
step_pieces as (
    select *, prev_us as from_us, b1_us as to_us, way_category as category,
        'initialisation' as phase, 0 as steps_here, 'before the first step' as rule,
        launch_no - 1 as blame_no
    from cut where what = 'step'
    union all by name
    select *, b1_us as from_us, b2_us as to_us,
        case when is_lost_here then 'lost_recompute' else 'productive' end as category,
        'evaluation' as phase, 0 as steps_here, 'surplus beside an evaluation' as rule,
        case when is_lost_here then lost_by_no end as blame_no
    from cut where what = 'step'
    union all by name
    select *, b2_us as from_us, b3_us as to_us, 'checkpoint' as category, 'save' as phase,
        0 as steps_here, 'surplus beside a save' as rule, null::bigint as blame_no
    from cut where what = 'step'
    union all by name
    select *, b3_us as from_us, b4_us as to_us, 'unexplained' as category, 'unknown' as phase,
        0 as steps_here, 'stated duration leaves a gap' as rule, null::bigint as blame_no
    from cut where what = 'step'
    union all by name
    select *, b4_us as from_us, b5_us as to_us, way_category as category, 'warm_up' as phase,
        0 as steps_here, 'excess of the first steps' as rule, launch_no - 1 as blame_no
    from cut where what = 'step'
    union all by name
    select *, b5_us as from_us, b6_us as to_us, 'productive' as category, 'train' as phase,
        n_kept as steps_here, 'kept steps' as rule, null::bigint as blame_no
    from cut where what = 'step'
    union all by name
    select *, b6_us as from_us, b7_us as to_us, 'lost_recompute' as category, 'train' as phase,
        n_discarded as steps_here, 'discarded updates' as rule, launch_no as blame_no
    from cut where what = 'step'
    union all by name
    select *, b7_us as from_us, at_us as to_us,
        case when n_lost > 0 then 'lost_recompute' else 'uncommitted' end as category,
        'train' as phase, n_lost + n_uncommitted as steps_here,
        case when n_lost > 0 then 'rolled back' else 'after the last checkpoint' end as rule,
        lost_by_no as blame_no
    from cut where what = 'step'
    union all by name
    -- the part of a step before a save or an evaluation that stands inside its interval
    select *, prev_us as from_us, at_us as to_us,
        case
            when n_kept > 0 then 'productive'
            when n_lost > 0 or n_discarded > 0 then 'lost_recompute'
            else 'uncommitted'
        end as category,
        'train' as phase, 0 as steps_here,
        case
            when n_kept > 0 then 'kept steps'
            when n_lost > 0 then 'rolled back'
            when n_discarded > 0 then 'discarded updates'
            else 'after the last checkpoint'
        end as rule,
        case when n_kept > 0 then null when n_lost > 0 then lost_by_no
            when n_discarded > 0 then launch_no end as blame_no
    from cut where what in ('save_begin', 'evaluation_begin') and n_steps is not null
),

other_pieces as (
    select
        *, prev_us as from_us, at_us as to_us, 0 as steps_here,
        case
            when what in ('requeued', 'resubmitted', 'attempt_start', 'attempt_seen', 'launch_sign',
                'start', 'compile', 'train_start', 'load_begin', 'load_end') then way_category
            when is_save then 'checkpoint'
            when what in ('evaluation_end', 'evaluation_save_begin') then
                case when is_lost_here then 'lost_recompute' else 'productive' end
            else tail_category
        end as category,
        case what
            when 'requeued' then 'teardown'
            when 'resubmitted' then 'operator_gap'
            when 'attempt_start' then 'requeue_wait'
            when 'attempt_seen' then 'unknown'
            when 'launch_sign' then
                case when prev_what = 'launch_end' then 'launch' else 'allocation' end
            when 'start' then 'initialisation'
            when 'compile' then 'compile'
            when 'train_start' then 'initialisation'
            when 'load_begin' then 'initialisation'
            when 'load_end' then 'checkpoint_load'
            when 'save_end' then case when is_async then 'staging' else 'save' end
            when 'evaluation_end' then 'evaluation'
            when 'evaluation_save_begin' then 'evaluation'
            else case
                when is_save then 'save'
                when tail_category = 'recovery' and what <> 'shutdown' then 'detection'
                when not has_log then 'unknown'
                else 'shutdown'
            end
        end as phase,
        what as rule,
        case
            when what in ('requeued', 'resubmitted', 'attempt_start', 'attempt_seen', 'launch_sign',
                'start', 'compile', 'train_start', 'load_begin', 'load_end') then launch_no - 1
            when is_save then null
            when what in ('evaluation_end', 'evaluation_save_begin') then
                case when is_lost_here then lost_by_no end
            else launch_no
        end as blame_no
    from cut
    where what <> 'step'
        and not (what in ('save_begin', 'evaluation_begin') and n_steps is not null)
),

pieces as (
    select * from step_pieces
    union all by name
    select * from other_pieces
),

kept_time as (
    select
        run_id, launch_no, step_seq, sum(to_us - from_us) as productive_us,
        any_value(n_kept) as n_kept, any_value(n_kept * ref_us) as kept_us,
        -- the line that a launch begins with: its first step ran before the run was seen
        bool_or(what = 'step' and prev_what = 'launch_sign') and productive_us = 0 as is_unseen
    from pieces
    where category = 'productive' and phase = 'train'
    group by all
),

-- steps that ended within one tick of the clock share the time up to the next tick
ticks as (
    select
        *,
        least(
            coalesce(
                sum((productive_us > 0)::integer) over (
                    launch rows between unbounded preceding and 1 preceding), 0),
            sum((productive_us > 0)::integer) over (partition by run_id, launch_no) - 1) as tick
    from kept_time
    where not is_unseen
    window launch as (partition by run_id, launch_no order by step_seq)
),

kept_work as (
    select
        run_id, launch_no, tick, max(step_seq) filter (productive_us > 0) as step_seq,
        sum(productive_us) as productive_us, sum(n_kept) as n_kept, sum(kept_us) as kept_us
    from ticks
    group by all
),

-- The reference is at most 1.2 x the p10, so kept work can exceed its time by about that. More of it
-- says that step numbers or stated step times contradict the clock: then no ratio is known.
contradicted as (
    select run_id
    from kept_work
    group by run_id
    having sum(kept_us) > 1.25 * sum(productive_us)
)

select
    p.run_id,
    case
        when p.what not in ('requeued', 'resubmitted', 'attempt_start', 'attempt_seen')
            then p.attempt_id
    end as attempt_id,
    p.launch_no,
    p.mark_no,
    p.from_us,
    p.to_us,
    p.category,
    p.phase,
    case
        when p.rule = 'kept steps' and p.steps_here > 0 then k.n_kept else p.steps_here
    end::bigint as n_steps,
    case
        when p.category <> 'productive' then 0
        when p.phase = 'evaluation' then 1
        when p.run_id in (from contradicted) then null
        else k.kept_us / k.productive_us
    end as performance_ratio,
    case
        when p.what not in ('requeued', 'resubmitted', 'attempt_start', 'attempt_seen') then p.n_gpus
    end as n_gpus,
    p.rule,
    -- slower than 1.2 x the reference by more than the clock's error
    coalesce(
        p.category = 'productive' and p.phase = 'train'
        and p.steps_us > 1.2 * p.ref_steps_us
        and p.steps_us - p.ref_steps_us > 2e6 * p.step_error_s, false) as is_slow,
    case when p.category in ('recovery', 'lost_recompute') then p.blame_no end as blame_no,
    p.category = 'lost_recompute' and p.rule = 'discarded updates' as blame_skips,
    p.file_id, p.line, p.byte_offset
from pieces as p
left join kept_work as k
    on k.run_id = p.run_id and k.launch_no = p.launch_no and k.step_seq = p.step_seq
where p.to_us > p.from_us
