-- One row per training-log line that the timeline uses: the lines of the chosen step dialect (and
-- what other dialects say besides steps), without progress bars of evaluations or downloads.
-- Reads: train_line, step_source.
select
    t.file_id, t.seq, t.line, t.byte_offset, t.rank, t.kind, t.detail, t.phase, t.step_to,
    t.n_steps, t.total_steps, t.duration_ms, t.step_ms, t.global_batch, t.world_size,
    t.skipped_steps, t.checkpoint_path, t.checkpoint_tier, t.is_async, t.elapsed_s,
    t.elapsed_resolution_s, t.stamp_source, t.stamp_resolution_s, t.stated_us
from train_line as t
join step_source as s using (file_id)
where
    t.kind not in ('metric', 'train_config')
    and (t.kind <> 'step' or t.dialect = s.dialect)
    and (coalesce(t.detail, '') <> 'progress_bar'
        or t.total_steps is not distinct from s.bar_total)
