-- One row per line that a signature matched, with the instant that it states,
-- as printed.
-- A banner of Slurm carries its time inside the text.
-- Reads: raw_fault_event, file_state, inferred_stamp.
select
    t.* exclude (batch),
    f.cluster,
    coalesce(
        inferred_stamp.at_us,
        wall_us(t.stamp_us, t.stamp_kind, f.timezone),
        wall_us(
            epoch_us(try_strptime(t.captures['ts'], '%Y-%m-%dT%H:%M:%S')), 'local', f.timezone)
    ) as stated_us,
    -- these end a process: what follows them in the log belongs to the next launch
    (t.component = 'process.exit' and t.mode = 'fail_stop')
    or (t.component like 'scheduler.%' and t.role = 'root') as is_exit,
    t.role in ('root', 'either', 'symptom', 'cascade', 'teardown') as is_trouble
from in_log('raw_fault_event') as t
join file_state as f using (file_id)
left join inferred_stamp using (file_id, seq, stamp_kind)
