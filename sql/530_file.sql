-- One row per log file known to the lake.
-- Reads: raw_file, log_part, log_stretch, file_state, step_source, raw_train_event,
-- raw_fault_event, raw_accounting_row, raw_reject, train_line, fault_line, accounting.
with newest as (
    select *
    from raw_file
    qualify row_number() over (partition by file_id order by batch desc) = 1
),

lines as (
    select file_id, line, seq from raw_train_event
    union all
    select file_id, line, seq from raw_fault_event
    union all
    select file_id, line, seq from raw_accounting_row
    union all
    select file_id, line, seq from raw_reject
),

claimed as (
    select
        lines.file_id,
        -- records of a JSON document do not follow lines
        count(distinct case when f.format = 'slurm_json' then seq else line end)
            as n_claimed_lines
    from lines
    join newest as f using (file_id)
    group by all
),

rejects as (
    select file_id, count(*) as n_rejects
    from raw_reject
    group by all
),

instants as (
    select file_id, byte_offset, stated_us as at_us from train_line
    union all
    select file_id, byte_offset, stated_us as at_us from fault_line
    union all
    select file_id, byte_offset, unnest([submit_at_us, start_at_us, end_at_us]) as at_us
    from accounting
),

extent as (
    select p.file_id, min(i.at_us) as first_us, max(i.at_us) as last_us
    from instants as i
    join log_part as p
        on p.log_id = i.file_id
        and i.byte_offset - p.bytes_before >= p.byte_from
        and i.byte_offset - p.bytes_before < p.byte_until
    group by all
)

select
    f.file_id, p.log_id, p.part_no, l.cluster, f.path, parse_filename(f.path) as file_name,
    f.format, s.dialect,
    case when r.why in ('copied', 'retold') and f.status in ('parsed', 'truncated')
        then 'superseded' else f.status end as status,
    case when r.why in ('copied', 'retold') and f.status in ('parsed', 'truncated')
        then case r.why
            when 'copied' then 'a cut copy: ' || o.path || ' tells all of it'
            else 'from line ' || r.line_until + 1 || ' on told again by newer content of its path'
        end
        else f.status_detail
    end as status_detail,
    f.compression, l.timezone, f.parsed_to as n_bytes, f.n_lines,
    coalesce(c.n_claimed_lines, 0) as n_claimed_lines,
    coalesce(j.n_rejects, 0) as n_rejects,
    make_timestamptz(e.first_us) as first_at,
    make_timestamptz(e.last_us) as last_at,
    make_timestamptz(f.mtime_us) as modified_at
from newest as f
join log_part as p using (file_id)
join file_state as l on l.file_id = p.log_id
left join step_source as s on s.file_id = p.log_id
left join log_stretch as r on r.file_id = f.file_id
left join newest as o on o.file_id = r.other_id
left join claimed as c on c.file_id = f.file_id
left join rejects as j on j.file_id = f.file_id
left join extent as e on e.file_id = f.file_id
order by f.path, f.file_id
