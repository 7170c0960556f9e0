-- One row per (run, requested world size, global batch): the fault-free time of one step, t_ref.
-- Healthy step times: not the first 5 steps of a launch, no save or evaluation inside. Stamps
-- coarser than a step are read over windows of 40 times their error (or a tenth of the healthy
-- time, if that is less), so that rounding averages out. t_ref = median of the times not slower
-- than 1.2 x p10.
-- Reads: step_time.
with timed as (
    select
        *,
        coalesce(stated_us, train_us) as spent_us,
        case
            when steps_before >= 5 and not has_interruption then 0
            when steps_before > 0 and not has_interruption then 1
            else 2
        end as health
    from step_time
    where n_steps > 0 and coalesce(stated_us, train_us) >= 0
),

-- a run too short for healthy steps is measured by the best that it has
healthy as (
    select *
    from timed
    qualify health = min(health) over (partition by run_id, world_size, global_batch)
),

cumulated as (
    select
        *,
        sum(spent_us) over (
            partition by run_id, launch_no, world_size, global_batch order by mark_no
            rows unbounded preceding) - spent_us as spent_before_us,
        case when stated_us is not null then 0 else least(
            40e6 * max(time_error_s) over key,
            sum(spent_us) over key / 10) end as window_us
    from healthy
    window key as (partition by run_id, world_size, global_batch)
),

samples as (
    select
        run_id, world_size, global_batch,
        sum(spent_us) / sum(n_steps) as step_us,
        sum(n_steps) as n_steps
    from cumulated
    group by
        run_id, world_size, global_batch, launch_no,
        case when window_us < 1000 then mark_no else floor(spent_before_us / window_us) end
    having sum(spent_us) > 0
),

low as (
    select run_id, world_size, global_batch, quantile_cont(step_us, 0.1) as p10_us
    from samples
    group by all
),

own as (
    select
        samples.run_id, samples.world_size, samples.global_batch,
        median(step_us) filter (step_us <= 1.2 * p10_us) as step_us,
        any_value(p10_us) as p10_us,
        sum(n_steps) filter (step_us <= 1.2 * p10_us) as n_healthy_steps
    from samples
    join low
        on low.run_id = samples.run_id
        and low.world_size is not distinct from samples.world_size
        and low.global_batch is not distinct from samples.global_batch
    group by all
),

-- fewer than 30 healthy steps: the nearest key with more, scaled by work per GPU
borrowed as (
    select
        own.run_id, own.world_size, own.global_batch,
        rich.step_us
        * coalesce(own.global_batch / nullif(rich.global_batch, 0), 1)
        * coalesce(rich.world_size / nullif(own.world_size, 0), 1) as step_us
    from own
    join own as rich
        on rich.run_id = own.run_id and rich.n_healthy_steps >= 30 and own.n_healthy_steps < 30
    qualify
        row_number() over (
            partition by own.run_id, own.world_size, own.global_batch
            order by
                abs(ln(coalesce(own.world_size / rich.world_size, 1)))
                + abs(ln(coalesce(own.global_batch / rich.global_batch, 1))),
                rich.n_healthy_steps desc) = 1
)

select
    own.run_id, own.world_size, own.global_batch,
    coalesce(borrowed.step_us, own.step_us) as step_us,
    own.p10_us,
    own.n_healthy_steps,
    borrowed.run_id is not null as is_borrowed
from own
left join borrowed
    on borrowed.run_id = own.run_id
    and borrowed.world_size is not distinct from own.world_size
    and borrowed.global_batch is not distinct from own.global_batch
