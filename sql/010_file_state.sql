-- One row per log; file_id is that of its first file, path and time are those of its newest.
-- A log of the cluster `default` belongs to the one cluster that accounting is of. If that is of
-- several, to the one where alone its job is found (by the job's output file, or its id in the name
-- or in a banner), else to the one where alone its nodes are.
-- Reads: raw_file, log_part, raw_accounting_row, raw_fault_event, raw_train_event.
with newest as (
    select *
    from raw_file
    qualify row_number() over (partition by file_id order by batch desc) = 1
),

logs as (
    select
        p.log_id as file_id,
        coalesce(min(nullif(f.cluster, 'default')), 'default') as cluster,
        arg_max(f.path, p.part_no) as path,
        -- the name that it had while it was written, unless a number may be of something else
        parse_filename(
            case when has_whole_name(arg_max(f.path, p.part_no))
                then log_path(arg_max(f.path, p.part_no))
                else plain_path(arg_max(f.path, p.part_no)) end) as file_name,
        coalesce(arg_max(f.timezone, p.part_no), 'UTC') as timezone,
        arg_max(f.mtime_us, p.part_no) as modified_us
    from newest as f
    join log_part as p using (file_id)
    group by p.log_id
),

accounts as (
    select distinct
        coalesce(a.cluster, f.cluster) as cluster, a.native_id, a.job_id, a.nodes,
        parse_filename(a.stdout_path) as stdout_name
    from raw_accounting_row as a
    join newest as f using (file_id)
    where a.step_id is null
),

named as (
    select any_value(cluster) as cluster
    from accounts
    where cluster <> 'default'
    having count(distinct cluster) = 1
),

unnamed as (
    select file_id, file_name
    from logs
    where cluster = 'default' and not exists (select 1 from named)
),

words as (
    select file_id, file_name as word from unnamed
    union
    select file_id, unnest(regexp_extract_all(file_name, '\d{3,}')) from unnamed
    union
    select p.log_id, split_part(t.captures['id'], '.', 1)
    from raw_fault_event as t
    join log_part as p using (file_id)
    join unnamed on unnamed.file_id = p.log_id
    where t.signature_id like 'slurm.%'
),

hosts as (
    select p.log_id as file_id, split_part(t.node, '.', 1) as host
    from (select file_id, node from raw_fault_event union select file_id, node from raw_train_event)
        as t
    join log_part as p using (file_id)
    join unnamed on unnamed.file_id = p.log_id
    where t.node is not null
),

found as (
    select w.file_id, a.cluster, 1 as place
    from words as w
    join accounts as a on w.word in (a.native_id, a.job_id, a.stdout_name)
    union
    select h.file_id, a.cluster, 2 as place
    from hosts as h
    join (select distinct cluster, split_part(unnest(nodes), '.', 1) as host from accounts) as a
        using (host)
),

chosen as (
    select file_id, any_value(cluster) as cluster
    from found
    group by file_id, place
    having count(distinct cluster) = 1
    qualify row_number() over (partition by file_id order by place) = 1
)

select
    logs.* replace (
        case when logs.cluster = 'default'
            then coalesce(named.cluster, chosen.cluster, 'default')
            else logs.cluster
        end as cluster)
from logs
left join named on true
left join chosen using (file_id)
order by file_id
