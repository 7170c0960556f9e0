-- One row per stated instant of a training log that its neighbours contradict: a broken clock, a
-- torn line, a date out of another file. It counts as unstated. Wild is a stamp that lies more
-- than a minute outside of what stands before and behind it, while these (the medians of up to
-- seven stamps each) are in order. Where they are not, the clock itself went back. At the ends of
-- a file, where only one side is known, a stamp is wild if it breaks the order, or if years lie
-- between.
-- Reads: train_line, fault_match, raw_clock_mark, file_state, inferred_stamp, step_source.
with stamps as (
    select file_id, seq, stated_us from train_line where stated_us is not null
    union
    select file_id, seq, stated_us from fault_match where stated_us is not null
    union
    select
        c.file_id, c.seq,
        coalesce(inferred_stamp.at_us, wall_us(c.stamp_us, c.stamp_kind, f.timezone)) as stated_us
    from in_log('raw_clock_mark') as c
    join file_state as f using (file_id)
    left join inferred_stamp using (file_id, seq, stamp_kind)
),

stepped as (
    select
        *,
        stated_us - lag(stated_us) over (partition by file_id order by seq, stated_us) as since_us
    from stamps
    where stated_us is not null and file_id in (select file_id from step_source)
),

-- most files only ever go on: they need no closer look
suspects as (
    select distinct file_id
    from stepped
    where since_us < -60000000 or since_us > 366 * 86400000000
),

seen as (
    select
        file_id, seq, stated_us,
        median(stated_us) over (
            in_file rows between 7 preceding and 1 preceding) as before_us,
        median(stated_us) over (
            in_file rows between 1 following and 7 following) as after_us
    from stepped
    semi join suspects using (file_id)
    window in_file as (partition by file_id order by seq, stated_us)
)

select distinct file_id, seq
from seen
where case
    when before_us is null then
        stated_us > after_us + 60000000 or stated_us < after_us - 366 * 86400000000
    when after_us is null then
        stated_us < before_us - 60000000 or stated_us > before_us + 366 * 86400000000
    when before_us > after_us + 60000000 then false
    else stated_us > after_us + 60000000 or stated_us < before_us - 60000000
end
order by file_id, seq
