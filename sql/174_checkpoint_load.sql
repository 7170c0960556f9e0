-- One row per attempt that loads what an attempt before it saved: the newest such one, and what
-- speaks against their being one run: a fork saves elsewhere, a fine-tune counts its steps anew.
-- Reads: checkpoint_place, launch_span.
with loads as (
    select
        load.attempt_id, load.step, load.folder, save.attempt_id as prev_attempt_id,
        save.from_us as saved_from_us, load.file_id, load.launch_in_file
    from checkpoint_place as load
    join checkpoint_place as save
        on load.cluster = save.cluster
        and load.folder = save.folder
        and load.step = save.step
        and save.from_us < load.from_us
        and save.attempt_id <> load.attempt_id
    where not load.is_save and save.is_save
    qualify
        row_number() over (
            partition by load.attempt_id
            order by save.from_us desc, load.step desc, save.attempt_id, load.from_us) = 1
),

saves as (
    select attempt_id, list(distinct folder) as folders
    from checkpoint_place
    where is_save
    group by all
)

select
    l.attempt_id, l.prev_attempt_id, l.step, l.folder,
    coalesce(not list_contains(saves.folders, l.folder), false) as is_elsewhere,
    coalesce(s.first_step <> l.step + 1, false) as is_anew
from loads as l
left join saves using (attempt_id)
left join launch_span as s
    on s.file_id = l.file_id and s.launch_in_file = l.launch_in_file
order by l.attempt_id
