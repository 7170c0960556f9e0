-- One row per piece of a run's wall clock, in order: [from_us, to_us). The pieces tile the run,
-- since each reaches from the mark before it to its own mark. Between attempts (place 0 and less)
-- no GPU is held.
-- blame_no: the launch whose end is the cause; blame_skips: the cause is discarded updates;
-- slow_mark: the first mark of the stretch of slow steps that the piece lies in.
-- Reads: step_piece, gap_piece, kept_work, slow_episode.
with pieces as (
    select * from step_piece
    union all by name
    select * from gap_piece
),

-- The reference is at most 1.2 x the p10, so kept work can exceed its time by about that. More of
-- it says that step numbers or stated step times contradict the clock: then no ratio is known.
contradicted as (
    select run_id
    from kept_work
    group by run_id
    having sum(kept_us) > 1.25 * sum(productive_us)
)

select
    p.run_id,
    case when p.place > 0 then p.attempt_id end as attempt_id,
    p.launch_no,
    p.mark_no,
    p.from_us,
    p.to_us,
    p.category,
    p.phase,
    case
        when p.rule = 'kept steps' and p.steps_here > 0 then k.n_kept else p.steps_here
    end::bigint as n_steps,
    case
        when p.category <> 'productive' then 0
        when p.phase = 'evaluation' then 1
        when c.run_id is not null then null
        else k.kept_us / k.productive_us
    end as performance_ratio,
    case when p.place > 0 then p.n_gpus end as n_gpus,
    p.rule,
    p.category = 'productive' and p.phase = 'train'
        and (coalesce(p.is_slow, false) or e.from_mark is not null) as is_slow,
    case when p.category = 'productive' and p.phase = 'train' then e.from_mark end as slow_mark,
    case when p.category in ('recovery', 'lost_recompute') then p.blame_no end as blame_no,
    p.category = 'lost_recompute' and p.rule = 'discarded updates' as blame_skips,
    p.file_id, p.line, p.byte_offset
from pieces as p
left join kept_work as k
    on k.run_id = p.run_id and k.launch_no = p.launch_no and k.step_seq = p.step_seq
left join contradicted as c on c.run_id = p.run_id
left join slow_episode as e
    on e.run_id = p.run_id and p.mark_no between e.from_mark and e.to_mark
where p.to_us > p.from_us
