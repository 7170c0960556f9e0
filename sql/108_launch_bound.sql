-- One row per process start in a log, with its stretch of the file [seq_from, seq_to). Beside the
-- starts that the log shows by itself, a start marker opens a launch where its time lies in
-- another attempt than that of the marker before: a process that died without a word.
-- Reads: log_start, train_line_used, step_source, wild_stamp, clock_offset, file_attempt,
-- job_attempt.
with markers as (
    select t.file_id, t.seq, t.stated_us + coalesce(o.offset_us, 0) as at_us
    from train_line_used as t
    join step_source as s using (file_id)
    left join clock_offset as o on o.file_id = t.file_id
    anti join wild_stamp as w on w.file_id = t.file_id and w.seq = t.seq
    where is_start_kind(t.kind) and t.stated_us is not null
        and coalesce(t.rank, -1) = s.marker_rank
),

allocations as (
    select fa.file_id, fa.attempt_id, a.start_at_us
    from file_attempt as fa
    join job_attempt as a using (attempt_id)
    where fa.log_confidence >= 0.9
),

located as (
    select
        m.file_id, m.seq, a.attempt_id,
        lag(a.attempt_id) over in_file as attempt_before,
        lag(m.seq) over in_file as seq_before
    from markers as m
    asof left join allocations as a on a.file_id = m.file_id and m.at_us >= a.start_at_us
    window in_file as (partition by m.file_id order by m.seq)
),

silent_starts as (
    select l.file_id, l.seq as seq_from
    from located as l
    asof left join log_start as s on s.file_id = l.file_id and l.seq >= s.seq_from
    where l.attempt_id <> l.attempt_before and s.seq_from <= l.seq_before
),

bounds as (
    select file_id, seq_from from log_start
    union
    select file_id, seq_from from silent_starts
)

select
    file_id,
    row_number() over launches as launch_in_file,
    seq_from,
    coalesce(lead(seq_from) over launches, 9223372036854775807) as seq_to
from bounds
window launches as (partition by file_id order by seq_from)
order by file_id, seq_from
