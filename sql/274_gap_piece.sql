-- One row per piece of the time between two marks that belongs to no step: start-up, saves and
-- evaluations with times of their own, ends, and the time between attempts. Silence before an end
-- that lasts too long to be the shutdown is unexplained.
-- blame_no: the launch whose end is the cause.
-- Reads: mark_fate.
with gaps as (
    select
        *,
        what in (
            'requeued', 'resubmitted', 'attempt_start', 'attempt_seen', 'launch_sign', 'start',
            'compile', 'train_start', 'load_begin', 'load_end') as is_way,
        case
            when what in ('attempt_end', 'launch_end', 'shutdown')
                and (is_save or tail_category in ('startup', 'planned'))
                then least(
                    at_us, prev_us + case when is_save then long_silence_us else silence_us end)
            else at_us
        end as known_until_us
    from mark_fate
    where what <> 'step'
        and not (what in ('save_begin', 'evaluation_begin') and n_steps is not null)
)

select
    *, prev_us as from_us, known_until_us as to_us, 0 as steps_here,
    case
        when is_way then way_category
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
        when is_way then launch_no - 1
        when is_save then null
        when what in ('evaluation_end', 'evaluation_save_begin') then
            case when is_lost_here then lost_by_no end
        else launch_no
    end as blame_no
from gaps
union all by name
select
    *, known_until_us as from_us, at_us as to_us, 0 as steps_here, 'unexplained' as category,
    'unknown' as phase, 'silence before the end' as rule, null::bigint as blame_no
from gaps
where known_until_us < at_us
