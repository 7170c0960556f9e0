-- Macros: facts in the places of their log.
-- in_log(facts): the living facts of a raw table in the places of their log: file_id names the log,
-- line, byte_offset and seq count through all its files; what a later file tells again is left out.
create or replace macro in_log(facts) as table
    select
        t.* replace (
            p.log_id as file_id,
            t.line + p.lines_before as line,
            t.byte_offset + p.bytes_before as byte_offset,
            t.seq + p.bytes_before as seq)
    from query_table(facts) as t
    join log_part as p
        on p.file_id = t.file_id
        and t.byte_offset >= p.byte_from and t.byte_offset < p.byte_until;
