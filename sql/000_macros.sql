-- Macros: what a printed time means.
-- wall_us(stamp_us, kind, zone): UTC microseconds of a dated stamp; null for the other kinds.
create or replace macro wall_us(stamp_us, kind, zone) as
    case
        when kind = 'utc' or (kind = 'local' and zone = 'UTC') then stamp_us
        when kind = 'local' then epoch_us(timezone(zone, make_timestamp(stamp_us)))
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
