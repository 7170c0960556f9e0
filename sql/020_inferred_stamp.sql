-- One row per fact whose printed time does not say by itself which instant it means, with that
-- instant. A time without year or date: the nearest dated time before it in its file decides, else
-- the nearest after it, else the modification time of the file. A time of the hour that a change
-- of zone offset shows twice: it means the first pass until the file's clock is seen to go back,
-- and if it never is, when the file was already being written before that hour.
-- Reads: raw_train_event, raw_fault_event, raw_clock_mark, file_state.
with printed as (
    select file_id, seq, stamp_us, stamp_kind
    from in_log('raw_train_event')
    where stamp_us is not null
    union
    select file_id, seq, stamp_us, stamp_kind
    from in_log('raw_fault_event')
    where stamp_us is not null
    union
    select file_id, seq, stamp_us, stamp_kind
    from in_log('raw_clock_mark')
    where stamp_us is not null
),

stamps as (
    select printed.*, file_state.timezone, file_state.modified_us
    from printed
    join file_state using (file_id)
    where file_state.timezone <> 'UTC'
        or file_id in (
            select file_id from printed where stamp_kind in ('local_no_year', 'time_of_day'))
),

-- days of 25 hours: the offset at their end is less than at their start
long_days as (
    select timezone, day_us
    from (
        select distinct timezone, stamp_us - stamp_us % 86400000000 as day_us
        from stamps
        where stamp_kind = 'local' and timezone <> 'UTC'
    )
    where wall_us(day_us + 86400000000, 'local', timezone) - wall_us(day_us, 'local', timezone)
        > 86400000000
),

of_long_days as (
    select
        s.file_id, s.seq, s.stamp_us, s.stamp_kind,
        wall_us(s.stamp_us, s.stamp_kind, s.timezone) as second_us,
        first_reading_us(s.stamp_us, s.timezone) as first_us,
        lag(s.stamp_us) over in_file as before_us
    from stamps as s
    join long_days as d
        on d.timezone = s.timezone and d.day_us = s.stamp_us - s.stamp_us % 86400000000
    where s.stamp_kind = 'local'
    window in_file as (partition by s.file_id order by s.seq)
),

passes as (
    select
        *,
        bool_or(before_us - stamp_us > 1800000000) over (
            partition by file_id order by seq rows unbounded preceding) as has_gone_back,
        bool_or(first_us is null) over (
            partition by file_id order by seq rows unbounded preceding) as has_earlier,
        bool_or(before_us - stamp_us > 1800000000) over (partition by file_id) as will_go_back
    from of_long_days
),

first_passes as (
    select file_id, seq, stamp_kind, first_us as at_us
    from passes
    where first_us is not null and not coalesce(has_gone_back, false)
        and (coalesce(will_go_back, false) or has_earlier)
),

partial as (
    select * from stamps where stamp_kind in ('local_no_year', 'time_of_day')
),

dated as (
    select
        s.file_id, s.seq,
        max(coalesce(f.at_us, wall_us(s.stamp_us, s.stamp_kind, s.timezone))) as at_us
    from stamps as s
    left join first_passes as f using (file_id, seq, stamp_kind)
    where s.stamp_kind in ('utc', 'local') and file_id in (select file_id from partial)
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
),

dated_now as (
    select
        file_id, seq, stamp_kind,
        wall_us(
            case
                when stamp_kind = 'local_no_year' then nearest_year_us(stamp_us, anchor_us)
                else nearest_day_us(stamp_us, local_us(anchor_us, timezone))
            end,
            'local', timezone) as at_us
    from anchored
    qualify row_number() over (partition by file_id, seq, stamp_kind order by at_us) = 1
)

select * from dated_now
union all
select * from first_passes
