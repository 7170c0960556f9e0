-- Categories, phases and causes are the words of the contract.
select segment_id, category, phase, cause
from segment
where
    category not in (
        'productive', 'lost_recompute', 'checkpoint', 'recovery', 'startup', 'planned',
        'uncommitted', 'unexplained')
    or phase not in (
        'train', 'evaluation', 'save', 'staging', 'detection', 'teardown', 'requeue_wait',
        'operator_gap', 'allocation', 'launch', 'initialisation', 'compile', 'checkpoint_load',
        'warm_up', 'maintenance', 'shutdown', 'unknown')
    or cause not in (
        'incident', 'checkpoint', 'startup', 'planned', 'slow', 'uncommitted', 'unexplained')
order by segment_id
