-- One row per piece of the time between two marks that belongs to steps: up to the line that ends
-- them, or up to a save or an evaluation that stands inside their interval. The pieces follow each
-- other without a gap.
-- blame_no: the launch whose end is the cause.
-- Reads: mark_fate.
with cut as (
    select
        run_id, attempt_id, launch_no, mark_no, place, what, step_seq, n_gpus, is_slow,
        prev_us, at_us, b1_us, b2_us, b3_us, b4_us, b5_us, b6_us, b7_us, n_kept, n_lost,
        n_discarded, n_uncommitted, lost_by_no, is_lost_here, way_category, file_id, line,
        byte_offset
    from mark_fate
    where n_steps is not null
)

select *, prev_us as from_us, b1_us as to_us,
    way_category as category,
    'initialisation' as phase, 0 as steps_here, 'before the first step' as rule,
    launch_no - 1 as blame_no
from cut where what = 'step' and prev_us < b1_us
union all by name
select *, b1_us as from_us, b2_us as to_us,
    case when is_lost_here then 'lost_recompute' else 'productive' end as category,
    'evaluation' as phase, 0 as steps_here, 'surplus beside an evaluation' as rule,
    case when is_lost_here then lost_by_no end as blame_no
from cut where what = 'step' and b1_us < b2_us
union all by name
select *, b2_us as from_us, b3_us as to_us,
    'checkpoint' as category, 'save' as phase,
    0 as steps_here, 'surplus beside a save' as rule, null::bigint as blame_no
from cut where what = 'step' and b2_us < b3_us
union all by name
select *, b3_us as from_us, b4_us as to_us,
    'unexplained' as category, 'unknown' as phase,
    0 as steps_here, 'stated duration leaves a gap' as rule, null::bigint as blame_no
from cut where what = 'step' and b3_us < b4_us
union all by name
select *, b4_us as from_us, b5_us as to_us,
    way_category as category, 'warm_up' as phase,
    0 as steps_here, 'excess of the first steps' as rule, launch_no - 1 as blame_no
from cut where what = 'step' and b4_us < b5_us
union all by name
select *, b5_us as from_us, b6_us as to_us,
    'productive' as category, 'train' as phase,
    n_kept as steps_here, 'kept steps' as rule, null::bigint as blame_no
from cut where what = 'step' and b5_us < b6_us
union all by name
select *, b6_us as from_us, b7_us as to_us,
    'lost_recompute' as category, 'train' as phase,
    n_discarded as steps_here, 'discarded updates' as rule, launch_no as blame_no
from cut where what = 'step' and b6_us < b7_us
union all by name
select *, b7_us as from_us, at_us as to_us,
    case when n_lost > 0 then 'lost_recompute' else 'uncommitted' end as category,
    'train' as phase, n_lost + n_uncommitted as steps_here,
    case when n_lost > 0 then 'rolled back' else 'after the last checkpoint' end as rule,
    lost_by_no as blame_no
from cut where what = 'step' and b7_us < at_us
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
from cut where what in ('save_begin', 'evaluation_begin') and prev_us < at_us
