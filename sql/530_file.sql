-- One row per log file known to the lake.
-- Reads: file_state, step_source, raw_train_event, raw_fault_event, raw_accounting_row, raw_reject,
-- train_line, fault_line, accounting.
with lines as (
    select file_id, line from raw_train_event
    union
    select file_id, line from raw_fault_event
    union
    select file_id, line from raw_accounting_row
    union
    select file_id, line from raw_reject
),

claimed as (
    select file_id, count(*) as n_claimed_lines
    from lines
    group by all
),

rejects as (
    select file_id, count(*) as n_rejects
    from raw_reject
    group by all
),

instants as (
    select file_id, stated_us as at_us from train_line
    union all
    select file_id, stated_us as at_us from fault_line
    union all
    select file_id, unnest([submit_at_us, start_at_us, end_at_us]) as at_us from accounting
),

extent as (
    select file_id, min(at_us) as first_us, max(at_us) as last_us
    from instants
    group by all
)

select
    f.file_id, f.cluster, f.path, f.file_name, f.format, s.dialect, f.status, f.status_detail,
    f.compression, f.timezone, f.n_bytes, f.n_lines,
    coalesce(c.n_claimed_lines, 0) as n_claimed_lines,
    coalesce(r.n_rejects, 0) as n_rejects,
    make_timestamptz(e.first_us) as first_at,
    make_timestamptz(e.last_us) as last_at,
    make_timestamptz(f.modified_us) as modified_at
from file_state as f
left join step_source as s using (file_id)
left join claimed as c using (file_id)
left join rejects as r using (file_id)
left join extent as e using (file_id)
order by f.path, f.file_id
