-- tor_low <= tor_high, and tor_observed is tor_low.
select run_id, tor_observed, tor_low, tor_high
from run
where tor_observed is distinct from tor_low or tor_low > tor_high + 1e-12
order by run_id
