-- The loss table of a run sums to 1 - TOR.
select run_id, run.tor_observed, sum(loss.share) as loss_share
from run
left join loss using (run_id)
where run.tor_observed is not null
group by run_id, run.tor_observed
having abs(coalesce(loss_share, 0) - (1 - run.tor_observed)) > 1e-9
order by run_id
