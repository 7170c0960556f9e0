-- One row per file: its newest ledger row. Files of the cluster `default` belong to the one cluster
-- that the accounting names, if it names one only.
-- Reads: raw_file, raw_accounting_row.
with named as (
    select any_value(cluster) as cluster
    from raw_accounting_row
    where cluster is not null
    having count(distinct cluster) = 1
)

select
    file_id,
    case when raw_file.cluster = 'default' then coalesce(named.cluster, 'default')
        else raw_file.cluster end as cluster,
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
left join named on true
qualify row_number() over (partition by file_id order by batch desc) = 1
order by file_id
