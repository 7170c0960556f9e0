-- One row per fact whose printed time lacks the year or the date, with the instant it must mean:
-- the nearest dated time before it in its file decides, else the nearest after it, else the
-- modification time of the file.
-- Reads: raw_train_event, raw_fault_event, raw_clock_mark, file_state.
with stamps as (
    select file_id, seq, stamp_us, stamp_kind from raw_train_event where stamp_us is not null
    union all by name
    select file_id, seq, stamp_us, stamp_kind from raw_fault_event where stamp_us is not null
    union all by name
    select file_id, seq, stamp_us, stamp_kind from raw_clock_mark where stamp_us is not null
),

partial as (
    select distinct stamps.*, file_state.timezone, file_state.modified_us
    from stamps
    join file_state using (file_id)
    where stamps.stamp_kind in ('local_no_year', 'time_of_day')
),

dated as (
    select
        stamps.file_id, stamps.seq, max(wall_us(stamp_us, stamp_kind, file_state.timezone)) as at_us
    from stamps
    join file_state using (file_id)
    where stamp_kind in ('utc', 'local') and file_id in (select distinct file_id from partial)
    group by all
),

before as (
    select partial.*, dated.at_us as before_us
    from partial
    asof left join dated on partial.file_id = dated.file_id and partial.seq >= dated.seq
),

anchored as (
    select
        before.*,
        coalesce(before.before_us, dated.at_us, before.modified_us) as anchor_us
    from before
    asof left join dated on before.file_id = dated.file_id and before.seq <= dated.seq
)

select
    file_id,
    seq,
    stamp_kind,
    case
        when stamp_kind = 'local_no_year'
            then wall_us(nearest_year_us(stamp_us, anchor_us), 'local', timezone)
        -- a time of day belongs to the day of its neighbour, or to the day that makes it nearer
        else
            stamp_us + anchor_us - anchor_us % 86400000000
            + case
                when stamp_us - anchor_us % 86400000000 > 43200000000 then -86400000000
                when stamp_us - anchor_us % 86400000000 < -43200000000 then 86400000000
                else 0
            end
    end as at_us
from anchored
qualify row_number() over (partition by file_id, seq, stamp_kind order by at_us) = 1
