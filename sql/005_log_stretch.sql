-- One row per file of which another one tells the same: the stretch [byte_from, byte_until) of it
-- that still counts, so that nothing is counted twice and nothing that was once read gets lost.
-- copied: a cut copy says nothing beyond the file it is a copy of: nothing of it counts.
-- retold: what a path held before counts up to where its new content begins to tell the same again.
-- continued: the new content lacks the end of the old one, so it counts behind what both tell.
-- Reads: log_file, log_extent, raw_train_event, raw_fault_event, raw_clock_mark.
with files as (
    select * from log_file join log_extent using (file_id)
),

alike as (
    select a.file_id, b.file_id as other_id, a.n_whole, a.tail_offset
    from files as a
    join files as b
        on b.log_path = a.log_path and b.first_seq = a.first_seq and b.first_said = a.first_said
        and (b.n_whole, b.n_bytes, b.file_id) > (a.n_whole, a.n_bytes, a.file_id)
),

copies as (
    select alike.file_id, alike.other_id
    from alike
    join log_fact() as a on a.file_id = alike.file_id and a.byte_offset < alike.tail_offset
    join log_fact() as b on b.file_id = alike.other_id and b.seq = a.seq and b.said = a.said
    group by alike.file_id, alike.other_id, alike.n_whole
    having count(*) = alike.n_whole
),

versions as (
    select a.file_id as older_id, b.file_id as newer_id, a.last_byte as older_last_byte
    from files as a
    join files as b on b.path = a.path and b.first_batch > a.first_batch
    where a.file_id not in (select file_id from copies)
        and b.file_id not in (select file_id from copies)
),

-- only dated facts: an equal loss or rate may be of another launch
retold as (
    select
        v.older_id, v.newer_id,
        max(a.byte_offset) = v.older_last_byte as has_end,
        min(a.byte_offset) as older_byte,
        min(a.line) as older_line,
        max(b.byte_offset) as newer_byte,
        max(b.line) as newer_line
    from versions as v
    join log_fact() as a on a.file_id = v.older_id
    join log_fact() as b on b.file_id = v.newer_id and b.said = a.said
    where a.kind <> 'clock' and a.stamp_kind in ('utc', 'local', 'local_no_year')
    group by v.older_id, v.newer_id, v.older_last_byte
),

stretches as (
    select file_id, 'copied' as why, other_id, 0 as byte_until, 0 as line_until from copies
    union all by name
    select
        older_id as file_id, 'retold' as why, newer_id as other_id,
        older_byte as byte_until, older_line - 1 as line_until
    from retold
    where has_end
    union all by name
    select
        newer_id as file_id, 'continued' as why, older_id as other_id,
        newer_byte + 1 as byte_from, newer_line as line_from
    from retold
    where not has_end
)

select
    file_id,
    min(why) as why,
    arg_min(other_id, (why, other_id)) as other_id,
    coalesce(max(byte_from), 0) as byte_from,
    coalesce(max(line_from), 0) as line_from,
    min(byte_until) as byte_until,
    min(line_until) as line_until
from stretches
group by file_id
