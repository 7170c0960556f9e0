-- One row per stated instant inside a launch: the fixed points of its clock.
-- Reads: launch_line, fault_line, raw_clock_mark, launch_bound, file_state, inferred_stamp,
-- clock_offset, wild_stamp, step_source.
with others as (
    select file_id, seq, stated_us as at_us, stamp_resolution_s
    from fault_line
    where stated_us is not null and file_id in (select file_id from step_source)
    union all
    select
        c.file_id, c.seq,
        coalesce(inferred_stamp.at_us, wall_us(c.stamp_us, c.stamp_kind, f.timezone))
        + coalesce(o.offset_us, 0) as at_us,
        c.stamp_resolution_s
    from in_log('raw_clock_mark') as c
    join file_state as f using (file_id)
    left join inferred_stamp using (file_id, seq, stamp_kind)
    left join clock_offset as o on o.file_id = c.file_id
    anti join wild_stamp as wild on wild.file_id = c.file_id and wild.seq = c.seq
    where c.file_id in (select file_id from step_source)
)

select
    file_id, launch_in_file, seq, stated_us as at_us,
    coalesce(stamp_resolution_s, 1) as error_s
from launch_line
where stated_us is not null
union all
select
    others.file_id, b.launch_in_file, others.seq, others.at_us,
    coalesce(others.stamp_resolution_s, 1) as error_s
from others
asof join launch_bound as b on others.file_id = b.file_id and others.seq >= b.seq_from
where others.at_us is not null
