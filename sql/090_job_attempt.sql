-- One row per allocation that the accounting shows, times in UTC microseconds.
-- Reads: allocation.
-- Source of the mapping: sacct(1), job state codes; a user's scancel names the uid.
select
    id_of([scheduler, cluster, native_id, submit_at_us::varchar, het_offset::varchar])
        as attempt_id,
    *,
    case state_base
        when 'COMPLETED' then 'completed'
        when 'FAILED' then 'app_fail'
        when 'OUT_OF_MEMORY' then 'oom'
        when 'TIMEOUT' then 'timeout'
        when 'DEADLINE' then 'deadline'
        when 'CANCELLED' then
            case when state ilike '%by 0' then 'cancel_system' else 'cancel_user' end
        when 'PREEMPTED' then 'preempt'
        when 'NODE_FAIL' then 'node_fail'
        when 'BOOT_FAIL' then 'boot_fail'
        when 'LAUNCH_FAILED' then 'launch_fail'
        when 'REQUEUED' then 'requeue_unspecified'
        when 'RESIZING' then 'resize'
        when 'REVOKED' then 'revoked'
        when 'RUNNING' then 'open'
        when 'PENDING' then 'open'
        when 'SUSPENDED' then 'open'
        when 'COMPLETING' then 'open'
        when 'CONFIGURING' then 'open'
        else 'unknown'
    end as end_kind,
    coalesce(end_at_us is null and state_base in ('RUNNING', 'SUSPENDED', 'COMPLETING'), false)
        as is_open,
    -- a day beyond its limit no live job runs: the accounting lost its end
    coalesce(
        end_at_us is null and state_base = 'RUNNING' and elapsed_s > time_limit_s + 86400, false)
        as is_runaway
from allocation
order by cluster, start_at_us, attempt_id
