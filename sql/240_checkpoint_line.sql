-- One row per checkpoint save of a run, with the step it holds and whether it became durable. A
-- blocking save is durable once its end is printed or a step follows it; a background one once its
-- end is printed, and so is a save of which only the end is printed. A checkpoint that a later
-- launch loaded was durable whatever was printed.
-- Reads: run_launch, launch_line, event_clock, step_line.
with saves as (
    select
        r.run_id, r.launch_no, l.file_id, l.launch_in_file, l.seq, l.line, l.byte_offset,
        coalesce(l.detail = 'scheduled', false) as is_scheduled, l.kind, l.phase, l.step_to,
        l.checkpoint_path, l.checkpoint_tier, coalesce(l.is_async, false) as is_async, c.at_us,
        -- one line can tell of a whole save, at its end
        case when l.phase = 'instant' then l.duration_ms * 1000 end::bigint as whole_save_us
    from launch_line as l
    join run_launch as r using (file_id, launch_in_file)
    join event_clock as c using (file_id, seq)
    where l.kind in ('checkpoint_save', 'checkpoint_commit')
),

-- a begin whose next line of the kind says that the rest was handed to the background is async
begins as (
    select * exclude (is_scheduled, next_is_scheduled, whole_save_us)
        replace (
            is_async or coalesce(next_is_scheduled, false) as is_async,
            at_us - coalesce(whole_save_us, 0) as at_us),
        at_us as own_end_us,
        whole_save_us is not null as is_whole
    from (
        select
            *,
            lead(is_scheduled) over (
                partition by run_id, launch_no, kind order by seq) as next_is_scheduled
        from saves
    )
    where kind = 'checkpoint_save' and phase <> 'end'
),

ends as (
    select * from saves where not is_scheduled and (kind = 'checkpoint_commit' or phase = 'end')
),

steps as (
    select s.file_id, s.launch_in_file, s.seq, s.step_to
    from step_line as s
),

located as (
    select begins.*, coalesce(begins.step_to, steps.step_to) as step
    from begins
    asof left join steps
        on begins.file_id = steps.file_id and begins.launch_in_file = steps.launch_in_file
        and begins.seq >= steps.seq
    -- two lines may announce one save
    qualify row_number() over (
        partition by begins.run_id, begins.launch_no, coalesce(begins.step_to, steps.step_to)
        order by begins.seq) = 1
),

followed as (
    select located.*, steps.seq as next_step_seq
    from located
    asof left join steps
        on located.file_id = steps.file_id and located.launch_in_file = steps.launch_in_file
        and located.seq <= steps.seq
),

closed as (
    select
        f.* exclude (own_end_us, is_whole),
        -- one line can tell of a whole save, at its end
        coalesce(
            min(ends.at_us),
            any_value(case when f.is_whole and not f.is_async then f.own_end_us end)
        ) as durable_us
    from followed as f
    left join ends
        on ends.run_id = f.run_id and ends.launch_no = f.launch_no and ends.seq > f.seq
        and (ends.step_to is null or ends.step_to = f.step)
        and (f.is_async or ends.seq < coalesce(f.next_step_seq, 9223372036854775807))
    group by all
),

lone_ends as (
    select
        e.* replace (null::boolean as is_async, null::bigint as at_us),
        coalesce(e.step_to, steps.step_to) as step,
        e.at_us as durable_us
    from ends as e
    anti join located as l
        on l.run_id = e.run_id and l.launch_no = e.launch_no and l.seq < e.seq
        and (e.step_to is null or l.step = e.step_to)
    asof left join steps
        on e.file_id = steps.file_id and e.launch_in_file = steps.launch_in_file
        and e.seq >= steps.seq
    qualify row_number() over (
        partition by e.run_id, e.launch_no, coalesce(e.step_to, steps.step_to)
        order by e.seq) = 1
),

every_save as (
    select * exclude (kind, phase, step_to, launch_in_file) from closed
    union all by name
    select * exclude (kind, phase, step_to, launch_in_file, is_scheduled, whole_save_us)
    from lone_ends
),

loaded as (
    select r.run_id, r.launch_no, coalesce(r.resume_step, r.first_step - 1) as step
    from run_launch as r
    where coalesce(r.resume_step, r.first_step - 1) > 0
)

select
    c.* exclude (next_step_seq),
    c.durable_us is not null
    or (not c.is_async and c.next_step_seq is not null)
    or exists (
        select 1 from loaded
        where loaded.run_id = c.run_id and loaded.launch_no > c.launch_no and loaded.step = c.step
    ) as is_durable
from every_save as c
