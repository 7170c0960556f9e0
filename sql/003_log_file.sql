-- One row per text file whose log has more files: their names differ by rotation or compression
-- only, or one path held them one after another.
-- Reads: raw_file.
with newest as (
    select
        file_id, path, first_path, parsed_to as n_bytes, n_lines, tail_offset,
        min(batch) over (partition by file_id) as first_batch,
        log_path(path) as log_path,
        rotation_mark(path) as mark
    from raw_file
    where format = 'text'
    qualify row_number() over (partition by file_id order by batch desc) = 1
)

select
    * exclude (mark),
    -- the higher its number the older a file is; the one being written has none
    case when regexp_full_match(mark, '\.\d{1,3}') then -ltrim(mark, '.')::integer else 0 end
        as place_no,
    case when length(mark) > 4 then regexp_replace(mark, '\D', '', 'g') else '~' end as place_date,
    bool_or(mark = '') over (partition by log_path) or has_whole_name(path) as is_rotated
from newest
qualify count(*) over (partition by log_path) > 1
