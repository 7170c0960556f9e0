-- One row per file: its newest ledger row.
-- Reads: raw_file.
select
    file_id,
    cluster,
    path,
    parse_filename(path) as file_name,
    format,
    status,
    status_detail,
    compression,
    coalesce(timezone, 'UTC') as timezone,
    tail_offset,
    parsed_to as n_bytes,
    n_lines,
    mtime_us as modified_us
from raw_file
qualify row_number() over (partition by file_id order by batch desc) = 1
order by file_id
