-- One row per failure: a launch that ended in one (kind end), a launch whose updates were discarded
-- (skips), a stretch of slow steps (slow).
-- Reads: run_launch, mark, piece.
with progress as (
    select
        run_id, launch_no,
        max(at_us) filter (what in ('step', 'save_end', 'evaluation_end')) as progress_us,
        max(at_us) filter (what = 'launch_end') as launch_end_us,
        min(at_us) filter (place >= 0) as first_us
    from mark
    group by all
),

resumed as (
    select run_id, launch_no, min(from_us) as resumed_us
    from piece
    where category = 'productive' and phase = 'train'
    group by all
)

select
    id_of(['incident', r.run_id, r.launch_no::varchar]) as failure_id,
    'end' as kind, r.run_id, r.attempt_id, r.launch_no, null::bigint as slow_mark,
    coalesce(p.progress_us, p.first_us) as onset_us,
    case when r.is_last_of_attempt then r.attempt_until_us
        else coalesce(p.launch_end_us, r.until_us) end as ended_us,
    min(resumed.resumed_us) as resumed_us
from run_launch as r
join progress as p using (run_id, launch_no)
left join resumed on resumed.run_id = r.run_id and resumed.launch_no > r.launch_no
where r.end_state = 'failed'
group by all
union all by name
select
    id_of(['skips', run_id, launch_no::varchar]) as failure_id,
    'skips' as kind, run_id, attempt_id, launch_no,
    min(from_us) as onset_us, max(to_us) as ended_us, max(to_us) as resumed_us
from piece
where blame_skips and attempt_id is not null
group by all
union all by name
select
    id_of(['slow', run_id, min(from_us)::varchar]) as failure_id,
    'slow' as kind, run_id, any_value(attempt_id) as attempt_id, any_value(launch_no) as launch_no,
    slow_mark,
    min(from_us) as onset_us, max(to_us) as ended_us, max(to_us) as resumed_us
from piece
where slow_mark is not null
group by run_id, slow_mark
