-- One row per process start that a log shows by itself, with the byte where its stretch of the
-- file begins. A start marker opens a launch when something (steps, an evaluation, an exit) ended
-- the one before; repeated markers of one start, or of several ranks, do not.
-- Reads: train_line_used, fault_match, step_source.
with ends as (
    select file_id, seq, true as is_exit
    from train_line_used
    where kind in ('step', 'evaluation', 'checkpoint_save', 'shutdown')
    union all
    select fault_match.file_id, fault_match.seq, fault_match.is_exit
    from fault_match
    where fault_match.is_trouble and file_id in (select file_id from step_source)
),

starts as (
    select t.file_id, t.seq
    from train_line_used as t
    join step_source as s using (file_id)
    where
        is_start_kind(t.kind)
        and coalesce(t.rank, -1) = s.marker_rank
    -- a bar that begins is only a start where nothing better says so: every rank may draw one
    qualify
        coalesce(t.detail, '') <> 'progress_bar'
        or bool_and(coalesce(t.detail, '') = 'progress_bar') over (partition by t.file_id)
),

starts_with_end as (
    select starts.*, ends.seq as last_exit_seq
    from starts
    asof left join (select * from ends where is_exit) as ends
        on starts.file_id = ends.file_id and starts.seq > ends.seq
),

new_starts as (
    select *
    from starts_with_end
    qualify
        last_exit_seq > coalesce(lag(seq) over (partition by file_id order by seq), -1)
)

-- the stretch begins behind the last trouble of the process before
select new_starts.file_id, ends.seq + 1 as seq_from
from new_starts
asof join ends on new_starts.file_id = ends.file_id and new_starts.seq > ends.seq
union
select file_id, 0 as seq_from from step_source
order by file_id, seq_from
