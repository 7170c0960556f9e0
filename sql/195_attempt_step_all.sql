-- One row per accounting step, with the attempt that was running when it started.
-- Reads: accounting, job_attempt.
select
    s.*,
    a.attempt_id
from (select * from accounting where step_id is not null) as s
asof left join (
    select attempt_id, cluster, native_id, coalesce(start_at_us, submit_at_us) as from_us
    from job_attempt
    where coalesce(start_at_us, submit_at_us) is not null
) as a
    on s.cluster = a.cluster and s.native_id = a.native_id
    and coalesce(s.start_at_us, s.end_at_us, 9e18::bigint) >= a.from_us
