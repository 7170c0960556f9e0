-- Segments of a run follow each other without gap or overlap, from the run's start to its end.
with ordered as (
    select
        run_id, segment_id, start_at, end_at,
        lag(end_at) over (partition by run_id order by start_at, end_at) as before_end_at
    from segment
),

ends as (
    select run_id, min(start_at) as start_at, max(end_at) as end_at
    from segment
    group by run_id
)

select run_id, segment_id, 'gap or overlap' as problem
from ordered
where before_end_at <> start_at or end_at <= start_at
union all
select run_id, null as segment_id, 'run is not covered' as problem
from run
left join ends using (run_id)
where run.start_at is distinct from ends.start_at or run.end_at is distinct from ends.end_at
order by all
