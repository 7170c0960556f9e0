"""The rows of the failure catalogue: every example of every row, and the loader's refusals."""

from __future__ import annotations

import re

import hyperscan
import polars as pl
import pytest

from parsers.faults import load_catalogue
from parsers.signature import CatalogueError, problems_in, read_folder

CATALOGUE = load_catalogue()


def test_built_in_catalogue_is_sound():
    assert problems_in(CATALOGUE.signatures) == []
    assert len({s.order for s in CATALOGUE.signatures}) == len(CATALOGUE.signatures)


@pytest.mark.parametrize("s", CATALOGUE.signatures, ids=lambda s: s.id)
def test_examples_match_and_near_misses_do_not(s):
    assert s.positive
    for line in s.positive:
        assert s.search(line), line
        assert CATALOGUE.match(line)["signature_id"] == s.id, "a row above takes its example"
    for line in s.negative:
        assert not s.search(line), line


def test_regexes_run_in_other_engines_alike():
    for s in CATALOGUE.signatures:
        lines = pl.Series([*s.positive, *s.negative])
        found = lines.str.contains(s.regex).to_list()
        assert found == [bool(re.search(s.regex, line)) for line in lines], s.id
    expressions = [re.sub(r"\(\?P<\w+>", "(", s.regex).encode() for s in CATALOGUE.signatures]
    hyperscan.Database().compile(expressions=expressions, ids=list(range(len(expressions))))


ROW = """
[[signature]]
id = "site.pump"
order = 1000
component = "host.other"
mode = "fail_slow"
domain = "infrastructure"
role = "root"
priority = 40
scope = "node"
literals = ["pump failure"]
regex = 'chassis (?P<chassis>\\d+): pump failure'
positive = ["chassis 7: pump failure"]
negative = ["no pump failure"]
"""


def test_user_folder_adds_and_replaces(tmp_path):
    (tmp_path / "site.toml").write_text(ROW)
    catalogue = load_catalogue((str(tmp_path),))
    assert len(catalogue.signatures) == len(CATALOGUE.signatures) + 1
    assert catalogue.match("chassis 7: pump failure")["signature_id"] == "site.pump"
    (tmp_path / "site.toml").write_text(ROW.replace("site.pump", "py.import"))
    load_catalogue.cache_clear()
    assert len(load_catalogue((str(tmp_path),)).signatures) == len(CATALOGUE.signatures)


def test_new_user_row_comes_before_built_in_ones(tmp_path):
    line = "chassis 7: pump failure, CUDA out of memory"
    assert CATALOGUE.match(line)["signature_id"] == "cuda.oom"
    (tmp_path / "site.toml").write_text(ROW)
    assert load_catalogue((str(tmp_path),)).match(line)["signature_id"] == "site.pump"


def test_user_row_takes_a_built_in_one_out(tmp_path):
    (tmp_path / "off.toml").write_text('[[signature]]\nid = "cuda.oom"\ndisabled = true\n')
    assert load_catalogue((str(tmp_path),)).match("CUDA out of memory") is None
    (tmp_path / "off.toml").write_text('[[signature]]\nid = "cuda.oon"\ndisabled = true\n')
    load_catalogue.cache_clear()
    with pytest.raises(CatalogueError, match=r"cuda\.oon: disabled, but there is no such"):
        load_catalogue((str(tmp_path),))


CASE = """
[[signature.case]]
group = "chassis"
has = "^0$"
role = "context"
example = "chassis 0: pump failure"
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('mode = "fail_slow"', 'mode = "broken"'), "'broken' is not one of"),
        (('domain = "infrastructure"', 'domain = "us"'), "'us' is not one of"),
        (('role = "root"', 'role = "cause"'), "'cause' is not one of"),
        (('scope = "node"', 'scope = "rack"'), "'rack' is not one of"),
        (('"host.other"', '"host.pump"'), "'host.pump' is not one of"),
        (('literals = ["pump failure"]', "literals = []"), "no literals"),
        (('literals = ["pump failure"]', 'literals = "pump"'), "must be a list of texts"),
        (('literals = ["pump failure"]', 'literals = ["pump broken"]'), "none of its literals"),
        (("order = 1000", 'order = "last"'), "'order' must be of type int"),
        (("'chassis (", "'rack ("), "does not match its example"),
        (('["no pump failure"]', '["chassis 1: pump failure"]'), "matches its near miss"),
        (("\\d+)", "(?:\\d+)+)"), "unbounded repeat"),
        (("'chassis (", "'(?=x)chassis ("), "look-around"),
        (("(?P<chassis>\\d+)", "(\\d+) \\1"), "back-reference"),
        (("\\d+)", "\\d++)"), "possessive"),
        (("\\d+)", "\\d+"), "does not compile"),
        (("(?P<chassis>\\d+)", "(?P<chassis>\\w*).*[ :].*[ :].*"), "backtracks too long"),
        (('positive = ["chassis 7: pump failure"]', ""), "no positive example"),
        (("priority = 40", ""), "missing or unknown key: 'priority'"),
        (("priority = 40", "priority = 40\nseverity = 1"), "missing or unknown key: 'severity'"),
        (("priority = 40", "priority = 40\ncolumns = { gpu = 'slot' }"), "does not capture"),
        (("priority = 40", "priority = 40\ncolumns = { rack = 'chassis' }"), "is not one of"),
        (('group = "chassis"', 'group = "pump"'), "no such group"),
        (('has = "^0$"', ""), "needs one of 'has' and 'lacks'"),
        (('has = "^0$"', 'has = "(0"'), "does not compile"),
        (('has = "^0$"', 'has = "1"'), "does not apply to its example"),
        (('role = "context"', 'role = "cause"'), "'cause' is not one of"),
        (('role = "context"', ""), "changes nothing"),
        (("[[signature]]", "[[signatures]]"), "expected [[signature]] tables"),
        (("[[signature]]", "[[signature"), "not readable as TOML"),
    ],
)
def test_loader_refuses_and_says_where(tmp_path, change, message):
    row = ROW + CASE
    assert change[0] in row
    (tmp_path / "site.toml").write_text(row.replace(*change))
    with pytest.raises(CatalogueError, match=r"site\.toml") as caught:
        load_catalogue((str(tmp_path),))
    assert message in str(caught.value)


def test_all_problems_are_told_at_once(tmp_path):
    (tmp_path / "a.toml").write_text(ROW.replace('"root"', '"cause"').replace('"node"', '"rack"'))
    (tmp_path / "b.toml").write_text(ROW.replace("'chassis (", "'rack ("))
    with pytest.raises(CatalogueError) as caught:
        load_catalogue((str(tmp_path), str(tmp_path / "absent")))
    told = str(caught.value)
    for words in ("'cause'", "'rack'", "does not match its example", "absent: no such folder"):
        assert words in told
    assert len(told.splitlines()) == 4


def test_equal_ids_in_one_folder_are_refused(tmp_path):
    (tmp_path / "a.toml").write_text(ROW)
    (tmp_path / "b.toml").write_text(ROW)
    assert any("occurs twice" in p for p in problems_in(read_folder(tmp_path).signatures))
