-- One row per step line of a run: how the time since the mark before it divides.
-- In this order: initialisation_us or hole_us (an untimed save or evaluation), unexplained_us,
-- warm_up_us, then the steps: kept, discarded, rolled back.
-- Warm-up is the excess of a launch's first steps over what its later steps take, or over the
-- reference where that is more.
-- Reads: step_time, reference, rollback, run_launch, checkpoint_line, failed_before.
with paces as (
    select
        run_id, launch_no,
        median(coalesce(stated_us, train_us) / nullif(n_steps, 0)) as own_step_us
    from step_time
    where steps_before >= 5 and not has_interruption
    group by all
),

referenced as (
    select
        t.*,
        r.step_us as ref_us,
        greatest(r.step_us, p.own_step_us) * t.n_steps as pace_us,
        t.end_us - t.last_part_from_us as last_part_us,
        t.n_steps * r.step_us as ref_steps_us,
        -- what the steps should have taken: as stated; by the reference where something is hidden
        coalesce(
            t.stated_us,
            case when t.has_untimed_save or t.has_untimed_evaluation or t.steps_before = 0
                then t.n_steps * r.step_us end
        ) as expected_us
    from step_time as t
    left join reference as r
        on r.run_id = t.run_id
        and r.world_size is not distinct from t.world_size
        and r.global_batch is not distinct from t.global_batch
    left join paces as p on p.run_id = t.run_id and p.launch_no = t.launch_no
),

surplus as (
    select
        *,
        least(greatest(coalesce(train_us - expected_us, 0), 0), last_part_us) as surplus_us
    from referenced
),

-- a surplus beside both a save and an evaluation is divided by what each takes alone
alone as (
    select
        run_id,
        median(surplus_us) filter (has_untimed_save and not has_untimed_evaluation) as save_us,
        median(surplus_us) filter (has_untimed_evaluation and not has_untimed_save)
            as evaluation_us
    from surplus
    group by all
),

divided as (
    select
        s.*,
        case
            when steps_before = 0 and (stated_us is not null or prev_what <> 'train_start')
                then surplus_us
            else 0
        end as initialisation_us,
        case
            when steps_before = 0 then 0
            when has_untimed_save and not has_untimed_evaluation then surplus_us
            when has_untimed_save and a.save_us is not null and a.evaluation_us is not null
                then surplus_us * a.save_us / nullif(a.save_us + a.evaluation_us, 0)
            when has_untimed_save and a.save_us is not null then least(surplus_us, a.save_us)
            when has_untimed_save and a.evaluation_us is not null
                then greatest(surplus_us - a.evaluation_us, 0)
            else 0
        end as save_us,
        case
            when steps_before = 0 or not has_untimed_evaluation then 0
            when not has_untimed_save then surplus_us
            when a.save_us is null and a.evaluation_us is null then 0
            else null  -- the rest of the surplus
        end as evaluation_us,
        has_untimed_save and has_untimed_evaluation
            and a.save_us is null and a.evaluation_us is null as is_undivided
    from surplus as s
    left join alone as a using (run_id)
),

holes as (
    select
        * replace (
            coalesce(evaluation_us, surplus_us - coalesce(save_us, 0)) as evaluation_us,
            coalesce(save_us, 0) as save_us),
        case
            when steps_before = 0 then 0
            when is_undivided then surplus_us
            when has_untimed_save or has_untimed_evaluation then 0
            when stated_us is not null and surplus_us > 10 * ref_steps_us then surplus_us
            else 0
        end as unexplained_us
    from divided
),

warmed as (
    select
        *,
        train_us - initialisation_us - save_us - evaluation_us - unexplained_us as busy_us,
        -- an excess of less than a hundredth is jitter
        case when steps_before < 5
            and train_us - initialisation_us - save_us - evaluation_us - unexplained_us
                > 1.01 * pace_us then
            least(
                greatest(train_us - initialisation_us - save_us - evaluation_us - unexplained_us
                    - pace_us, 0),
                last_part_us - initialisation_us - save_us - evaluation_us - unexplained_us)
            else 0
        end as warm_up_us
    from holes
),

fate as (
    select
        w.*,
        b.cut_no,
        b0.from_step as lost_from,
        case when b.launch_no is not null
            then w.step_to + 1 - greatest(w.step_from, b0.from_step) else 0
        end as n_lost,
        u.committed_step
    from warmed as w
    asof left join rollback as b
        on b.run_id = w.run_id and b.launch_no = w.launch_no and b.from_step <= w.step_to
    left join (select run_id, launch_no, min(from_step) as from_step from rollback group by all)
        as b0 on b0.run_id = w.run_id and b0.launch_no = w.launch_no
    left join (
        -- the last launch with steps of a run that failed: what no checkpoint holds
        select
            r.run_id, r.launch_no,
            coalesce(max(c.step), any_value(r.first_step) - 1) as committed_step
        from run_launch as r
        left join checkpoint_line as c
            on c.run_id = r.run_id and c.launch_no = r.launch_no and c.is_durable
        where r.first_step is not null
            and r.run_id in (
                select run_id from run_launch where end_state = 'failed' and not has_successor)
        group by r.run_id, r.launch_no
        qualify r.launch_no = max(r.launch_no) over (partition by r.run_id)
    ) as u on u.run_id = w.run_id and u.launch_no = w.launch_no
),

charged as (
    select
        f.*,
        case when fb.failed_no >= f.launch_no then fb.failed_no end as lost_by_no,
        coalesce(least(f.n_steps, greatest(f.step_to - f.committed_step, 0)), 0) as n_uncommitted,
        f.busy_us - f.warm_up_us as steps_us
    from fate as f
    left join failed_before as fb on fb.run_id = f.run_id and fb.launch_no = f.cut_no
)

select
    *,
    greatest(least(n_skipped, n_steps - n_lost - n_uncommitted), 0) as n_discarded,
    n_steps - n_lost - n_uncommitted
    - greatest(least(n_skipped, n_steps - n_lost - n_uncommitted), 0) as n_kept
from charged
