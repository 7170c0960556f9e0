"""Every printed form of a time is read for what it says, and for no more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.clock import Stamp, find_stamp, parse_stamp
from parsers.tables import StampKind


def us(text: str) -> int:
    """Microseconds of an ISO instant, read as UTC."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


FORMS = [
    ("2026-02-01T00:00:10Z", "utc", "2026-02-01T00:00:10", 1.0),
    ("2026-02-01T00:00:10.5Z", "utc", "2026-02-01T00:00:10.5", 0.1),
    ("2026-02-01T00:00:10.123456789+01:00", "utc", "2026-01-31T23:00:10.123456", 1e-6),
    ("2026-02-01T00:00:10-0530", "utc", "2026-02-01T05:30:10", 1.0),
    ("2025-11-09 15:39:31.043 +08:00", "utc", "2025-11-09T07:39:31.043", 1e-3),
    ("2026-02-01 00:00:10 UTC", "utc", "2026-02-01T00:00:10", 1.0),
    ("2025-01-21T04:41:44,285060+00:00", "utc", "2025-01-21T04:41:44.285060", 1e-6),
    ("2016-12-31T23:59:60Z", "utc", "2017-01-01T00:00:00", 1.0),
    ("2026-02-01 00:00:10", "local", "2026-02-01T00:00:10", 1.0),
    ("[2026-02-01 00:00:10,123]", "local", "2026-02-01T00:00:10.123", 1e-3),
    ("2025-05-21_15:43:03", "local", "2025-05-21T15:43:03", 1.0),
    ("01/17/2024 14:07:46", "local", "2024-01-17T14:07:46", 1.0),
    ("[Sun Feb 23 16:24:18 2025]", "local", "2025-02-23T16:24:18", 1.0),
    ("[Jul 23 2024 07:53:55]", "local", "2024-07-23T07:53:55", 1.0),
    ("2025-04-08-18:07:20.444.436", "local", "2025-04-08T18:07:20.444436", 1e-6),
    ("2025-04-08-18:07:20", "local", "2025-04-08T18:07:20", 1.0),
    ("Feb 14 05:03:41", "local_no_year", "1972-02-14T05:03:41", 1.0),
    ("Feb  4 05:03:41.123456", "local_no_year", "1972-02-04T05:03:41.123456", 1e-6),
    ("02/29 00:00:10", "local_no_year", "1972-02-29T00:00:10", 1.0),
    ("E602 11:17:52.185053341", "local_no_year", "1972-06-02T11:17:52", 1.0),
    ("E1206 11:17:52.185053341", "local_no_year", "1972-12-06T11:17:52", 1.0),
    ("E1130 21:30:26.493000", "local_no_year", "1972-11-30T21:30:26.493", 1e-3),
    ("E0325 20:57:27.620000", "local_no_year", "1972-03-25T20:57:27.620", 1e-3),
    ("I1101 18:13:53.281798", "local_no_year", "1972-11-01T18:13:53.281798", 1e-6),
    ("[15:58:29]", "time_of_day", "1970-01-01T15:58:29", 1.0),
    ("[155044.078590]", "boot", "1970-01-02T19:04:04.078590", 1e-6),
    ("[  201.650687]", "boot", "1970-01-01T00:03:21.650687", 1e-6),
    ("1706860208.35", "utc", "2024-02-02T07:50:08.35", 1e-2),
    ("1706860208", "utc", "2024-02-02T07:50:08", 1.0),
    ("1706860208123", "utc", "2024-02-02T07:50:08.123", 1e-3),
]


@pytest.mark.parametrize(("text", "kind", "instant", "resolution_s"), FORMS)
def test_form_is_read_exactly(text: str, kind: str, instant: str, resolution_s: float) -> None:
    assert parse_stamp(text) == Stamp(us(instant), StampKind(kind), pytest.approx(resolution_s))


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-30 00:00:00",
        "2025-13-01 00:00:00",
        "0000-00-00 00:00:00",
        "2023-01-01 24:00:00",
        "2026-02-01 00:00:100",
        "Feb 30 05:03:41",
        "E1332 00:00:00.000000000",
        "E000 00:00:00.000000000",
        "W0801 13:23:17.366",
        "15:58:29",
        "155044.078590",
        "[12345678901.123456]",
        "170686020812",
        "2026-02-01 00:00:10 of training",
        "",
        "[",
    ],
)
def test_what_is_no_time_or_cannot_be_one_is_null(text: str) -> None:
    assert parse_stamp(text) is None


def test_stamp_is_found_at_its_place_only() -> None:
    line = "  [2026-02-01 00:00:10.5] iteration 3"
    found = find_stamp(line)
    assert found is not None
    assert (found[0].us, line[found[1] :]) == (us("2026-02-01T00:00:10.5"), " iteration 3")
    assert find_stamp("took until 2026-02-01 00:00:10") is None
    assert find_stamp("took until 2026-02-01 00:00:10", len("took until")) is not None


@pytest.mark.parametrize("rest", [" -1000ms", " +5 things", " +0100x", " -9999", " Zero", " CET"])
def test_words_behind_a_time_are_no_zone(rest: str) -> None:
    found = find_stamp(f"2026-02-01 00:00:10{rest}")
    assert found is not None
    assert found[0].kind == StampKind.LOCAL


def test_c10_fraction_is_of_another_clock() -> None:
    """Its nine digits count from boot: kept, they would order lines of one second at random."""
    early, late = (parse_stamp(f"E321 02:07:08.{f}") for f in ("900000001", "100000001"))
    assert early == late


@given(st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31)))  # noqa: DTZ001 - wall clock
def test_any_wall_clock_comes_back(moment: datetime) -> None:
    expected = us(moment.isoformat())
    for separator in "T ":
        stamp = parse_stamp(f"[{moment.isoformat(separator, 'microseconds')}]")
        assert stamp == Stamp(expected, StampKind.LOCAL, pytest.approx(1e-6))


@given(st.text("0123456789-:/., TZ+[]EJanFebMon", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    parse_stamp(text)
    found = find_stamp(text)
    assert found is None or 0 < found[1] <= len(text)
