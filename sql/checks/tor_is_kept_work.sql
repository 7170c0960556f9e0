-- TOR is the sum of duration x performance ratio of productive segments over the wall clock.
select run_id, run.tor_observed, sum(duration_s * performance_ratio) / any_value(run.wall_s) as tor
from run
join segment using (run_id)
where category = 'productive' and run.tor_observed is not null
group by run_id, run.tor_observed
having abs(tor - run.tor_observed) > 1e-9
order by run_id
