-- Macros: which files are one log.
-- plain_path(path): the path without the suffix of a compression.
create or replace macro plain_path(path) as regexp_replace(path, '\.(gz|zst|zstd)$', '');

-- rotation_pattern(): what rotation puts into a name, at its end or before the extension: `.1`
-- (logrotate), `-20260201` (its dateext), `.2026-02-01_03-00` (handlers of programming languages).
create or replace macro rotation_pattern() as
    '([^/])(\.\d{1,3}|[._-](?:19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d'
    || '(?:[T_.-]?[0-2]\d(?:[-:_.]?[0-5]\d){0,2}(?:_\d+)?)?)(\.[A-Za-z]\w*)?$';

-- rotation_mark(path): that part of the name; '' where there is none.
create or replace macro rotation_mark(path) as
    regexp_extract(plain_path(path), rotation_pattern(), 2);

-- log_path(path): the path that the log had while it was written, if that part is one of rotation.
create or replace macro log_path(path) as
    regexp_replace(plain_path(path), rotation_pattern(), '\1\3');

-- has_whole_name(path): the mark stands behind a whole name, so that it must be one of rotation.
create or replace macro has_whole_name(path) as
    plain_path(path) = log_path(path) || rotation_mark(path)
    and regexp_matches(log_path(path), '\.[A-Za-z]\w*$');

-- log_fact(): one row per fact of a text file: what orders files in time, a hash of what it says.
create or replace macro log_fact() as table
    select
        file_id, seq, line, byte_offset, kind, dialect, total_steps, step_to, stamp_us, stamp_kind,
        hash(
            kind, detail, step_to, n_steps, stamp_us, stamp_kind, elapsed_s, duration_ms, step_ms,
            loss, grad_norm, rank, message) as said
    from raw_train_event
    union all by name
    select
        file_id, seq, line, byte_offset, 'fault' as kind, stamp_us, stamp_kind,
        hash(signature_id, stamp_us, stamp_kind, rank, node, message) as said
    from raw_fault_event
    union all by name
    select
        file_id, seq, line, byte_offset, 'clock' as kind, stamp_us, stamp_kind,
        hash(stamp_us, stamp_kind, rank, node) as said
    from raw_clock_mark;
