-- One row per file: the log that it is part of, its place in it, the stretch of it that counts, and
-- how many bytes and lines of the log stand before its first byte (negative where its stretch
-- begins later). A log is called by its first file; a file alone is a log.
-- Files are one log where their names say so (the higher the number or the earlier the date the
-- older; a file first seen where the other was is newer), and times and steps do not speak against
-- it: a file that begins inside a launch goes on behind the last step of the one before. Where a
-- name may mean something else than rotation, only such a file joins, if it goes on at once.
-- Reads: raw_file, log_file, log_extent, log_stretch, raw_train_event, raw_fault_event,
-- raw_clock_mark.
with counting as (
    select
        f.*, coalesce(s.byte_from, 0) as byte_from, coalesce(s.line_from, 0) as line_from,
        coalesce(s.byte_until, f.n_bytes) as byte_until,
        coalesce(s.line_until, f.n_lines) as line_until
    from log_file as f
    left join log_extent as e using (file_id)
    left join log_stretch as s using (file_id)
    where coalesce(s.byte_until, 1) > 0
        -- of files without facts only the one being written matters: it is the newest
        and (e.file_id is not null or (f.place_no = 0 and f.place_date = '~'))
),

facts as (
    select f.log_path, t.*
    from log_fact() as t
    join counting as f
        on f.file_id = t.file_id
        and t.byte_offset >= f.byte_from and t.byte_offset < f.byte_until
),

usual_step as (
    select log_path, dialect, total_steps
    from facts
    where kind = 'step'
    group by log_path, dialect, total_steps
    qualify row_number() over (
        partition by log_path order by count(*) desc, dialect, total_steps) = 1
),

usual_stamp as (
    select log_path, mode(stamp_kind) as stamp_kind
    from facts
    where stamp_kind in ('utc', 'local', 'local_no_year')
    group by log_path
),

extents as (
    select
        f.file_id,
        arg_min(f.stamp_us, f.seq) filter (f.stamp_kind = t.stamp_kind) as first_us,
        arg_max(f.stamp_us, f.seq) filter (f.stamp_kind = t.stamp_kind) as last_us,
        arg_min(f.step_to, f.seq) filter (is_usual) as first_step,
        (arg_min(f.step_to, f.seq, 2) filter (is_usual))[2] as second_step,
        arg_max(f.step_to, f.seq) filter (is_usual) as last_step,
        min(f.seq) filter (is_usual) < coalesce(
            min(f.seq) filter (
                is_start_kind(f.kind)),
            9223372036854775807) as begins_inside
    from (
        select
            facts.*,
            facts.kind = 'step' and facts.dialect = s.dialect
            and facts.total_steps is not distinct from s.total_steps as is_usual
        from facts
        left join usual_step as s using (log_path)
    ) as f
    left join usual_stamp as t using (log_path)
    group by f.file_id
),

placed as (
    select
        *,
        row_number() over (
            partition by log_path
            order by case when is_timed then first_us end nulls last, place_no, place_date,
                first_batch, file_id) as nth
    from (
        select
            counting.*, extents.* exclude (file_id),
            bool_and(extents.file_id is null or first_us is not null) over (
                partition by log_path) as is_timed
        from counting
        left join extents using (file_id)
    )
),

judged as (
    select
        b.*,
        coalesce(
            coalesce(b.first_us >= a.last_us - 60000000, true)
            and case
                when not coalesce(b.begins_inside, false) then b.is_rotated and is_next
                when b.first_step <= a.last_step then false
                else (b.is_rotated and is_next)
                    or (b.first_step - a.last_step <= 2 * (b.second_step - b.first_step)
                        and coalesce(b.first_us - a.last_us <= 600000000, true))
            end, false) as is_continued
    from (
        select
            b.*,
            lag(file_id) over in_log as before_id,
            case
                when first_path = lag(first_path) over in_log or path = lag(path) over in_log
                    then first_batch > lag(first_batch) over in_log
                else (place_no, place_date)
                    > (lag(place_no) over in_log, lag(place_date) over in_log)
            end as is_next
        from placed as b
        window in_log as (partition by log_path order by nth)
    ) as b
    left join placed as a on a.file_id = b.before_id
),

logs as (
    select
        *,
        sum((not is_continued)::integer) over (
            partition by log_path order by nth rows unbounded preceding) as log_no
    from judged
),

parts as (
    select
        file_id,
        first_value(file_id) over in_log as log_id,
        row_number() over in_log as part_no,
        byte_from,
        -- the last file of a log may grow
        case when lead(file_id) over in_log is not null then byte_until end as byte_until,
        sum(byte_until - byte_from) over in_log - byte_until as bytes_before,
        sum(line_until - line_from) over in_log - line_until as lines_before
    from logs
    window in_log as (partition by log_path, log_no order by nth rows unbounded preceding)
)

select
    f.file_id,
    coalesce(p.log_id, f.file_id) as log_id,
    coalesce(p.part_no, 1) as part_no,
    coalesce(p.byte_from, 0) as byte_from,
    coalesce(p.byte_until, s.byte_until, 9223372036854775807) as byte_until,
    coalesce(p.bytes_before, 0)::bigint as bytes_before,
    coalesce(p.lines_before, 0)::bigint as lines_before
from (select distinct file_id from raw_file) as f
left join parts as p using (file_id)
left join log_stretch as s using (file_id)
order by log_id, part_no
