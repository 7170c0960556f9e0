-- One row per fact that speaks of a failure: lines of the launch's own log from 10 minutes
-- before the onset on, other logs of its attempt and of its nodes in [onset - 10 min, end + 2
-- min], but not from before the end of the launch before it.
-- Reads: failure, run_launch, run_member, launch_bound, launch_attempt, step_line, fault_line,
-- file_attempt.
with launch_ends as (
    select
        run_id, launch_no + 1 as launch_no,
        case when is_last_of_attempt then attempt_until_us else until_us end as before_until_us
    from run_launch
),

ends as (
    select
        e.failure_id, e.kind, e.run_id, e.launch_no, e.attempt_id,
        greatest(e.onset_us - 600000000, b4.before_until_us) as since_us,
        e.ended_us + 120000000 as until_us,
        r.file_id, coalesce(r.before_last_step_seq, r.last_step_seq) as last_step_seq,
        b.seq_from, b.seq_to
    from failure as e
    join run_launch as r using (run_id, launch_no)
    left join launch_bound as b using (file_id, launch_in_file)
    left join launch_ends as b4 on b4.run_id = e.run_id and b4.launch_no = e.launch_no
    where e.kind <> 'skips'
),

own_log as (
    select ends.failure_id, f.file_id, f.seq, f.signature_id
    from ends
    join fault_line as f
        on f.file_id = ends.file_id and f.seq >= ends.seq_from and f.seq < ends.seq_to
    where
        (f.seq > coalesce(ends.last_step_seq, -1) and ends.kind = 'end')
        or f.stated_us between ends.since_us and ends.until_us
),

attempt_logs as (
    select ends.failure_id, f.file_id, f.seq, f.signature_id
    from ends
    join file_attempt as fa on fa.attempt_id = ends.attempt_id
    join fault_line as f
        on f.file_id = fa.file_id and f.stated_us between ends.since_us and ends.until_us
    where f.file_id is distinct from ends.file_id
),

-- what another rank's log says without a time, behind its last step
last_steps as (
    select file_id, launch_in_file, max(seq) as last_step_seq
    from step_line
    group by all
),

sibling_logs as (
    select ends.failure_id, f.file_id, f.seq, f.signature_id
    from ends
    join launch_attempt as la
        on la.attempt_id = ends.attempt_id and la.file_id <> ends.file_id
        and la.last_us between ends.since_us and ends.until_us
    join launch_bound as b
        on b.file_id = la.file_id and b.launch_in_file = la.launch_in_file
    join last_steps as s
        on s.file_id = la.file_id and s.launch_in_file = la.launch_in_file
    join fault_line as f
        on f.file_id = la.file_id and f.seq > s.last_step_seq and f.seq < b.seq_to
    where f.stated_us is null and ends.kind = 'end'
),

nodes as (
    select ends.*, m.cluster, split_part(unnest(m.nodes), '.', 1) as host
    from ends
    join run_member as m using (run_id, attempt_id)
),

node_logs as (
    select nodes.failure_id, f.file_id, f.seq, f.signature_id
    from nodes
    join fault_line as f
        on f.cluster = nodes.cluster and split_part(f.node, '.', 1) = nodes.host
        and f.stated_us between nodes.since_us and nodes.until_us
    where f.file_id is distinct from nodes.file_id
),

-- the long texts join last: a storm of faults under many failures makes millions of these rows
every_fact as (
    select distinct failure_id, file_id, seq, signature_id
    from (
        select * from own_log
        union all by name
        select * from attempt_logs
        union all by name
        select * from sibling_logs
        union all by name
        select * from node_logs
    )
)

select
    e.failure_id, f.file_id, f.seq, f.line, f.byte_offset, f.signature_id, f.role, f.mode,
    f.component, f.domain, f.priority, f.stated_us, f.node, f.gpu, f.rank, f.count, f.message,
    f.captures
from every_fact as e
join fault_line as f using (file_id, seq, signature_id)
join failure using (failure_id)
where f.mode <> 'benign' and (failure.kind = 'end' or f.mode = 'fail_slow')
