-- Macros: what a printed time means.
-- wall_us(stamp_us, kind, zone): UTC microseconds of a dated stamp; null for the other kinds.
create or replace macro wall_us(stamp_us, kind, zone) as
    case
        when kind = 'utc' or (kind = 'local' and zone = 'UTC') then stamp_us
        when kind = 'local' then epoch_us(timezone(zone, make_timestamp(stamp_us)))
    end;

-- local_us(at_us, zone): what the clock of a zone shows at an instant.
create or replace macro local_us(at_us, zone) as
    epoch_us(timezone(zone, make_timestamptz(at_us)));

-- first_reading_us(stamp_us, zone): the earlier instant of a clock time that comes twice because
-- summer time ends; null for the others. wall_us gives the later one.
create or replace macro first_reading_us(stamp_us, zone) as
    case
        when local_us(wall_us(stamp_us, 'local', zone) - 3600000000, zone) = stamp_us
            then wall_us(stamp_us, 'local', zone) - 3600000000
    end;

-- reading_us(stamp_us, kind, zone, expected_us): wall_us, but of a clock time that comes twice the
-- reading nearer to the instant that something else lets expect.
create or replace macro reading_us(stamp_us, kind, zone, expected_us) as
    case
        when kind = 'local' and zone <> 'UTC' and expected_us is not null
            and abs(first_reading_us(stamp_us, zone) - expected_us)
                < abs(wall_us(stamp_us, kind, zone) - expected_us)
            then first_reading_us(stamp_us, zone)
        else wall_us(stamp_us, kind, zone)
    end;

-- nearest_day_us(time_us, anchor_us): the day that puts a time of day nearest to an anchor.
create or replace macro nearest_day_us(time_us, anchor_us) as
    time_us + anchor_us - anchor_us % 86400000000
    + case
        when time_us - anchor_us % 86400000000 > 43200000000 then -86400000000
        when time_us - anchor_us % 86400000000 < -43200000000 then 86400000000
        else 0
    end;

-- in_year(stamp_us, y): the month, day and time of a stamp, moved to another year.
create or replace macro in_year(stamp_us, y) as
    epoch_us(make_date(y, month(make_timestamp(stamp_us)), 1)::timestamp)
    + (day(make_timestamp(stamp_us)) - 1) * 86400000000
    + stamp_us % 86400000000;

-- nearest_year_us(stamp_us, anchor_us): the year that puts a stamp without year nearest to a dated
-- neighbour and not more than 36 h after it.
create or replace macro nearest_year_us(stamp_us, anchor_us) as
    list_reduce(
        list_transform(
            [-1, 0, 1], lambda d: in_year(stamp_us, year(make_timestamp(anchor_us)) + d)),
        lambda a, b: case
            when b <= anchor_us + 129600000000 and abs(b - anchor_us) <= abs(a - anchor_us)
                then b else a end);

-- id_of(parts): a short stable id.
create or replace macro id_of(parts) as substr(md5(array_to_string(parts, '|')), 1, 16);

-- is_start_kind(kind): the kinds of training-log lines that a process prints before its first step.
create or replace macro is_start_kind(kind) as
    kind in (
        'attempt_start', 'imports_done', 'dist_init', 'model_built', 'data_built', 'compile',
        'train_start', 'checkpoint_load', 'resume', 'fresh_start');
