-- Durations of a run's segments sum to its wall clock, to the microsecond.
select run_id, run.wall_s, sum(round(segment.duration_s * 1e6)::bigint) as segments_us
from run
left join segment using (run_id)
group by run_id, run.wall_s
having segments_us is distinct from round(run.wall_s * 1e6)::bigint
order by run_id
