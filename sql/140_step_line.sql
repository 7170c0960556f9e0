-- One row per step line that counts, with the steps that it covers: from the step line before it in
-- its launch, or from the step that the launch resumed from; else it covers one step.
-- Lines of a second writer or rank, and repeated progress frames, are not counted again.
-- Reads: launch_line.
with resumed as (
    select
        file_id, launch_in_file,
        arg_max(step_to, seq) filter (kind = 'resume') as resume_step,
        arg_max(step_to, seq) filter (kind = 'checkpoint_load') as load_step,
        case when bool_or(kind = 'fresh_start') then 0 end as fresh_step
    from launch_line
    where kind in ('resume', 'checkpoint_load', 'fresh_start')
    group by all
),

steps as (
    select *
    from launch_line
    where kind = 'step' and step_to > 0
    qualify row_number() over (
        partition by file_id, launch_in_file, step_to order by stated_us nulls last, seq
    ) = 1
),

counted as (
    select
        steps.*,
        lag(steps.step_to) over launch as step_before,
        coalesce(resumed.resume_step, resumed.load_step, resumed.fresh_step) as resume_step
    from steps
    left join resumed using (file_id, launch_in_file)
    window launch as (partition by steps.file_id, steps.launch_in_file order by steps.seq)
),

covering as (
    select
        * exclude (n_steps, step_before),
        case
            when step_before < step_to then step_to - step_before
            when step_before is not null then 1
            when n_steps is not null then n_steps
            when resume_step < step_to then step_to - resume_step
            else 1
        end as n_steps
    from counted
)

select *, step_to + 1 - n_steps as step_from
from covering
