-- One row per piece of the time between two marks that belongs to steps: up to the line that ends
-- them, or up to a save or an evaluation that stands inside their interval. The pieces follow each
-- other without a gap; some are empty.
-- blame_no: the launch whose end is the cause.
-- Reads: mark_fate.
with bounded as (
    select
        *,
        prev_us + round(initialisation_us)::bigint as b1_us,
        prev_us + round(initialisation_us + evaluation_us)::bigint as b2_us,
        prev_us + round(initialisation_us + evaluation_us + save_us)::bigint as b3_us,
        prev_us + round(initialisation_us + evaluation_us + save_us + unexplained_us)::bigint
            as b4_us,
        prev_us + round(
            initialisation_us + evaluation_us + save_us + unexplained_us + warm_up_us)::bigint
            as b5_us
    from mark_fate
    where n_steps is not null
),

cut as (
    select
        *,
        greatest(
            b5_us, at_us - round(steps_us * (n_steps - n_kept) / n_steps)::bigint) as b6_us,
        greatest(
            b5_us, at_us - round(steps_us * (n_lost + n_uncommitted) / n_steps)::bigint) as b7_us
    from bounded
)

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
