-- One row per launch of a run, in order, with how it ended; an attempt without a log counts as one
-- launch of which nothing is known.
-- Reads: run_member, launch_span, launch_bound, fault_line, attempt_step_all.
with launches as (
    select
        m.run_id, m.attempt_id, m.ordinal, m.start_at_us, m.until_us as attempt_until_us,
        m.end_kind, m.n_gpus, m.is_open, m.scheduler is null as is_log_only,
        s.* exclude (attempt_id, cluster, is_log_only),
        row_number() over (
            partition by m.run_id
            order by m.ordinal, s.from_us nulls first, s.file_id, s.launch_in_file
        ) as launch_no,
        coalesce(row_number() over last_first = 1, true) as is_last_of_attempt
    from run_member as m
    left join launch_span as s using (attempt_id)
    window last_first as (
        partition by m.run_id, m.ordinal
        order by s.from_us desc nulls last, s.file_id desc, s.launch_in_file desc)
),

tail as (
    -- what the log says behind the last step; a last frame may be drawn when the bar is closed
    select
        l.run_id, l.launch_no, l.attempt_until_us, f.seq, f.stated_us, f.role,
        f.is_trouble and f.domain <> 'operator' and f.mode in ('fail_stop', 'hang') as is_trouble,
        f.role = 'root' and f.domain = 'operator' as is_operator_stop
    from launches as l
    join launch_bound as b using (file_id, launch_in_file)
    join fault_line as f
        on f.file_id = l.file_id
        and f.seq >= b.seq_from and f.seq < b.seq_to
        and f.seq > coalesce(l.before_last_step_seq, l.last_step_seq, -1)
),

stops as (
    select run_id, launch_no, min(seq) filter (is_operator_stop) as stop_seq
    from tail
    group by all
),

signs as (
    select
        tail.run_id, tail.launch_no,
        bool_or(tail.is_trouble) as has_trouble,
        bool_or(tail.is_operator_stop) as has_operator_stop,
        -- before the stop: what a kill makes a process print comes within a minute of the end
        bool_or(
            tail.is_trouble and tail.role in ('root', 'either', 'symptom')
            and tail.seq < coalesce(stops.stop_seq, 9223372036854775807)
            and coalesce(tail.stated_us < tail.attempt_until_us - 60000000, true)
        ) as has_trouble_before
    from tail
    join stops using (run_id, launch_no)
    group by all
),

failed_step as (
    select distinct attempt_id
    from attempt_step_all
    where state_base in ('FAILED', 'OUT_OF_MEMORY', 'NODE_FAIL')
),

in_order as (
    select
        l.*,
        coalesce(signs.has_trouble, false) as has_trouble,
        coalesce(signs.has_trouble_before, false) as has_trouble_before,
        coalesce(signs.has_operator_stop, false) as has_operator_stop,
        -- ten minutes, or ten times the usual time between step lines, is long
        greatest(600000000, 10 * l.usual_line_us)::bigint as long_silence_us,
        coalesce(
            l.attempt_until_us - greatest(l.last_event_us, l.last_step_us) > long_silence_us, false
        ) as is_silent_end,
        -- nothing of it survived: the steps after it begin where those before it had ended
        first_value(l.first_step ignore nulls) over later
        <= coalesce(max(l.last_step) over earlier, 0) + 1 as is_fruitless,
        failed_step.attempt_id is not null as has_failed_step,
        coalesce(l.shutdown_seq > coalesce(l.last_step_seq, -1), false) as has_shutdown,
        lead(l.launch_no) over run_order is not null as has_successor,
        lead(l.first_step) over run_order as next_first_step
    from launches as l
    left join signs using (run_id, launch_no)
    left join failed_step using (attempt_id)
    window
        run_order as (partition by l.run_id order by l.launch_no),
        earlier as (
            partition by l.run_id order by l.launch_no
            rows between unbounded preceding and 1 preceding),
        later as (
            partition by l.run_id order by l.launch_no
            rows between 1 following and unbounded following)
),

judged as (
    select
        *,
        case
            when not is_last_of_attempt then
                case
                    when has_shutdown and next_first_step > last_step
                        then 'planned: clean hand-over'
                    else 'failed: process ended inside its allocation'
                end
            when is_log_only then
                case
                    when has_operator_stop and has_trouble_before
                        then 'failed: stopped behind errors'
                    when has_operator_stop then 'planned: operator or scheduler stop in the log'
                    when has_shutdown
                        and shutdown_detail in ('walltime', 'exit_interval', 'sigterm')
                        then 'planned: the log says ' || shutdown_detail
                    when has_shutdown and shutdown_detail = 'aborted'
                        then 'failed: the log says aborted'
                    when has_shutdown and has_successor and next_first_step <= last_step
                        then 'failed: end marker, yet steps were repeated'
                    when has_shutdown and has_successor then 'planned: end marker in the log'
                    when has_shutdown then 'completed: end marker in the log'
                    when has_successor then 'failed: no end marker, started again'
                    when has_trouble then 'failed: errors behind the last step'
                    else 'open: the log just stops'
                end
            when end_kind = 'completed' then
                case when has_successor then 'planned: completed, then continued'
                    else 'completed: accounting' end
            when end_kind in ('preempt', 'resize') then 'planned: ' || end_kind
            when end_kind in ('timeout', 'deadline') then
                case
                    when has_trouble_before then 'failed: ' || end_kind || ' behind errors'
                    when is_silent_end then 'failed: ' || end_kind || ' behind long silence'
                    else 'planned: ' || end_kind
                end
            when end_kind in (
                'app_fail', 'oom', 'node_fail', 'boot_fail', 'launch_fail', 'evicted')
                then 'failed: ' || end_kind
            when end_kind in ('cancel_user', 'cancel_system') then
                case
                    when has_trouble_before then 'failed: cancelled behind errors'
                    when is_silent_end then 'failed: cancelled behind long silence'
                    else 'planned: ' || end_kind
                end
            when end_kind = 'requeue_unspecified' then
                case
                    when has_trouble or has_failed_step then 'failed: requeued behind errors'
                    when is_silent_end then 'failed: requeued behind long silence'
                    else 'planned: requeued without any error'
                end
            when is_open or end_kind = 'open' then 'open: accounting'
            when has_trouble then 'failed: errors behind the last step'
            else 'unknown: ' || end_kind
        end as verdict
    from in_order
)

select
    * exclude (verdict),
    split_part(verdict, ': ', 1) as end_state,
    split_part(verdict, ': ', 2) as end_rule
from judged
order by run_id, launch_no
