-- One row per event of a training log, with its resolved instant and step interval.
-- Reads: train_line, launch_line, event_clock, step_line.
select
    t.kind,
    t.detail,
    t.phase,
    make_timestamptz(coalesce(c.at_us, t.stated_us)) as occurred_at,
    coalesce(c.time_source, case when t.stated_us is not null then t.stamp_source end)
        as time_source,
    coalesce(c.time_error_s, case when t.stated_us is not null then t.stamp_resolution_s end)
        as time_error_s,
    coalesce(s.step_from, t.step_from) as step_from,
    t.step_to,
    coalesce(s.n_steps, t.n_steps) as n_steps,
    t.duration_ms, t.step_ms, t.world_size, t.global_batch, t.total_steps, t.loss, t.grad_norm,
    t.lr, t.tflops, t.tps, t.skipped_steps, t.nan_steps, t.checkpoint_path, t.checkpoint_tier,
    t.is_async, t.rank, t.node, t.dialect, l.launch_in_file::integer as launch_in_file, t.message,
    t.file_id, t.line, t.byte_offset, t.seq
from train_line as t
left join launch_line as l using (file_id, seq)
left join event_clock as c using (file_id, seq)
left join step_line as s using (file_id, seq)
order by t.file_id, t.seq
