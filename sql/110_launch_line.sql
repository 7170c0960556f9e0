-- One row per used training-log line, with its launch. A stated instant that lies more than a day off
-- while its neighbours agree with each other is a broken clock or a broken line: it counts as unstated.
-- Reads: train_line_used, launch_bound.
with stamps as (
    select
        file_id, seq,
        lag(stated_us) over in_file as before_us,
        stated_us,
        lead(stated_us) over in_file as after_us
    from train_line_used
    where stated_us is not null
    window in_file as (partition by file_id order by seq)
),

wild as (
    select file_id, seq
    from stamps
    where abs(after_us - before_us) < 86400000000
        and (stated_us > greatest(before_us, after_us) + 86400000000
            or stated_us < least(before_us, after_us) - 86400000000)
)

select
    t.* replace (case when wild.seq is null then t.stated_us end as stated_us),
    b.launch_in_file
from train_line_used as t
asof join launch_bound as b on t.file_id = b.file_id and t.seq >= b.seq_from
left join wild on wild.file_id = t.file_id and wild.seq = t.seq
