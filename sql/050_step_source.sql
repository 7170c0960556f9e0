-- One row per file with step lines: the dialect whose step lines are used (the one that tells most
-- about time; an auxiliary counter only where there is no other), the total of its main progress
-- bar, and the rank whose start markers count.
-- Reads: train_line.
with steps as (
    select
        file_id,
        dialect,
        count(*) as n_steps,
        count(stamp_us) > 0 as has_stamp,
        count(step_ms) > 0 as has_duration,
        bool_and(coalesce(detail = 'auxiliary', false)) as is_auxiliary,
        mode(total_steps) filter (detail = 'progress_bar') as usual_total
    from train_line
    where kind = 'step'
    group by all
),

chosen as (
    select *
    from steps
    qualify row_number() over (
        partition by file_id
        order by is_auxiliary, has_stamp desc, has_duration desc, n_steps desc, dialect
    ) = 1
),

stated_total as (
    select file_id, max(total_steps) as total_steps
    from train_line
    where kind = 'train_config'
    group by all
),

marker_rank as (
    select file_id, arg_min(coalesce(rank, -1), seq) as marker_rank
    from train_line
    where is_start_kind(kind)
    group by all
)

select
    file_id,
    chosen.dialect,
    coalesce(stated_total.total_steps, chosen.usual_total) as bar_total,
    coalesce(marker_rank, -1) as marker_rank
from chosen
left join stated_total using (file_id)
left join marker_rank using (file_id)
