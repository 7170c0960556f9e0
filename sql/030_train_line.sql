-- One row per event of a training log, with the instant that its own line states (stated_us).
-- Reads: raw_train_event, file_state, inferred_stamp.
select
    t.* exclude (batch),
    coalesce(inferred_stamp.at_us, wall_us(t.stamp_us, t.stamp_kind, f.timezone)) as stated_us
from in_log('raw_train_event') as t
join file_state as f using (file_id)
left join inferred_stamp using (file_id, seq, stamp_kind)
