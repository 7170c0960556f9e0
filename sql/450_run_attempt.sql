-- One row per attempt of a run.
-- Reads: run_member.
select run_id, attempt_id, ordinal, link_rule, link_confidence
from run_member
order by run_id, ordinal
