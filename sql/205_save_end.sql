-- One row per line that says that a save ended. is_late: no line said that it began; then it
-- stopped nothing that its time shows. is_commit: a background save of this launch was handed over
-- before.
-- Reads: launch_line.
with saves as (
    select
        file_id, launch_in_file, seq, phase,
        coalesce(lag(phase) over in_order, 'end') = 'end' as is_late,
        coalesce(bool_or(is_async or detail = 'scheduled') over (
            in_order rows between unbounded preceding and 1 preceding), false) as is_commit
    from launch_line
    where kind = 'checkpoint_save'
    window in_order as (partition by file_id, launch_in_file order by seq)
)

select file_id, launch_in_file, seq, is_late, is_commit
from saves
where phase = 'end'
