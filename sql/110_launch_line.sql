-- One row per used training-log line, with its launch and the instant that it states on the clock
-- of its attempt. A save behind the last step line of a launch that names a later step proves the
-- steps in between, fewer than a line covers: they get a step line of their own, one byte before
-- the save.
-- Reads: train_line_used, launch_bound, wild_stamp, clock_offset.
with lines as (
    select
        t.* replace (
            case when wild.seq is null then t.stated_us + coalesce(o.offset_us, 0) end
                as stated_us),
        b.launch_in_file
    from train_line_used as t
    asof join launch_bound as b on t.file_id = b.file_id and t.seq >= b.seq_from
    left join wild_stamp as wild on wild.file_id = t.file_id and wild.seq = t.seq
    left join clock_offset as o on o.file_id = t.file_id
),

logged as (
    select
        file_id, launch_in_file, max(seq) as last_seq, max(step_to) as last_step,
        (max(step_to) - min(step_to)) / nullif(count(*) - 1, 0) as interval_steps
    from lines
    where kind = 'step'
    group by all
),

proven as (
    select
        l.* replace (
            'step' as kind, 'proven by a save' as detail, 'instant' as phase, l.seq - 1 as seq,
            null as duration_ms, null as checkpoint_path, null as checkpoint_tier,
            null as is_async)
    from lines as l
    join logged using (file_id, launch_in_file)
    where l.kind = 'checkpoint_save' and l.phase <> 'end' and l.stated_us is not null
        and l.seq > logged.last_seq
        and l.step_to > logged.last_step
        and l.step_to < logged.last_step + logged.interval_steps
    qualify row_number() over (partition by l.file_id, l.launch_in_file order by l.seq) = 1
)

select * from lines
union all by name
select * from proven
