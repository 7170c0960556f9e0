"""`sql`: what it prints, and that a question can read the tables of the lake and nothing else."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import database, lake
from pipeline.cli import main
from pipeline.schema import ALL_TABLES, FIT_TABLES, TIMELINE_TABLES

ROOT = Path(__file__).parents[1]


def files_below(folder: Path) -> set[str]:
    return {str(p) for p in folder.rglob("*") if ".spill" not in p.name}


def test_sql_prints_json_csv_and_a_table(
    shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "select kind, count(*) as n from train_event group by all order by all"
    assert main(["sql", "--lake", str(shared_lake), question, "--json"]) == 0
    assert {"kind": "step", "n": 40} in json.loads(capsys.readouterr().out)
    assert main(["sql", "--lake", str(shared_lake), question, "--csv"]) == 0
    assert "step,40" in capsys.readouterr().out.splitlines()
    assert main(["sql", "--lake", str(shared_lake), question]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["kind", "n"]


@pytest.mark.parametrize(
    "query",
    [
        "select 1; select 2",
        "copy run to '{out}'",
        "with a as (copy run to '{out}') select 1",
        "with a as (copy run to '{inside}') select 1",
        "with a as (copy run to '{existing}') select 1",
        "select * from (with a as (copy run to '{inside}') select 1)",
        "explain analyze copy run to '{out}'",
        "copy (select 1) to '{inside}'",
        "export database '{out}'",
        "attach '{out}'",
        "install httpfs",
        "load httpfs",
        "create table t as select 1",
        "drop view run",
        "set enable_external_access = true",
        "pragma threads = 1",
        "from read_text('{secret}')",
        "from read_csv('{secret}')",
        "from '{secret}'",
        "from glob('{folder}/*')",
        "from read_text('{inside}/../../../../secret.txt')",
        "",
        "-- nothing",
        "selec 1",
    ],
)
def test_a_question_reads_the_lake_and_nothing_else(
    query: str, shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared_lake.parent
    (folder / "secret.txt").write_text("xyzzy")
    inside = shared_lake / "facts" / "batch=000001" / "out.parquet"
    existing = inside.with_name("train_event.parquet")
    filled = query.format(out=folder / "out", inside=inside, existing=existing,
                          secret=folder / "secret.txt", folder=folder)  # fmt: skip
    before, bytes_before = files_below(folder), existing.read_bytes()
    assert main(["sql", "--lake", str(shared_lake), filled]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("wallsplit sql: the query failed: ")
    assert "expected one query that only reads" in err
    assert "xyzzy" not in err
    assert files_below(folder) == before
    assert existing.read_bytes() == bytes_before


@pytest.mark.parametrize(
    "query",
    ["from run", "select 1;", "describe run", "show tables", "summarize run", "values (1)",
     "with a as (select 1 as x) from a", "pivot train_event on phase in ('instant') using count(*)",
     "from raw_train_event", "select 1 -- and a comment"],
)  # fmt: skip
def test_every_way_to_read_is_allowed(query: str, shared_lake: Path) -> None:
    assert main(["sql", "--lake", str(shared_lake), query]) == 0


def test_rows_keep_the_order_of_the_query(
    shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "select i from range(150000) as t(i) order by i % 7, i desc"
    assert main(["sql", "--lake", str(shared_lake), query, "--csv"]) == 0
    found = [int(line) for line in capsys.readouterr().out.splitlines()[1:]]
    assert found == sorted(range(150_000), key=lambda i: (i % 7, -i))


def test_values_of_every_type_print_as_json(
    shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = """
        select 0.95 as a, 12::hugeint as b, date '2026-02-01' as c, interval 3 day as d,
            {'x': 1.5, 'y': [date '2026-02-01']} as e, map {'k': 1} as f, 'nan'::double as g,
            timestamp '2026-02-01 00:00:01' as h, timestamptz '2026-02-01 00:00:01+01' as i,
            timestamp_ns '2026-02-01 00:00:00.123456789' as j, 'x'::blob as k, 1 as l, 2 as l,
            [interval 1 day] as m, time '10:00' as n, null as o
    """
    assert main(["sql", "--lake", str(shared_lake), query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"a": 0.95, "b": 12, "c": "2026-02-01", "d": "3 days",
         "e": {"x": 1.5, "y": ["2026-02-01"]}, "f": {"k": 1}, "g": None,
         "h": "2026-02-01T00:00:01Z", "i": "2026-01-31T23:00:01Z",
         "j": "2026-02-01 00:00:00.123456789", "k": "x", "l": 1, "l_1": 2, "m": "[1 day]",
         "n": "10:00:00", "o": None}]  # fmt: skip
    for form in ([], ["--csv"]):
        assert main(["sql", "--lake", str(shared_lake), query, *form]) == 0


def test_instants_do_not_depend_on_the_zone_of_the_machine(shared_lake: Path) -> None:
    query = """
        select timestamp '2026-02-01 00:00:01' as a, min(occurred_at) as b
        from train_event
        where kind = 'step'
    """
    found = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "sql", "--lake", str(shared_lake), "--csv", query],
        capture_output=True, cwd=ROOT, check=True, env={**os.environ, "TZ": "Asia/Tokyo"},
    )  # fmt: skip
    assert found.stdout == b"a,b\n2026-02-01T00:00:01Z,2026-02-01T00:00:01Z\n"


def test_json_shows_control_characters_and_direction_marks_as_escapes(
    shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "select chr(155) || chr(8238) || 'é' as text"
    assert main(["sql", "--lake", str(shared_lake), query, "--json"]) == 0
    assert capsys.readouterr().out == '[{"text": "\\u009b\\u202eé"}]\n'


def test_csv_ends_its_lines_like_the_shell_expects(shared_lake: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "sql", "--lake", str(shared_lake), "select 1 as a",
         "--csv"], capture_output=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert found.stdout == b"a\n1\n"


def test_cells_of_csv_are_exact_even_if_a_spreadsheet_takes_them_for_formulas(
    shared_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["=1+1", "+1", "-1", "@x", "a,b", 'q"q', "two\nlines", " x "]
    rows = ", ".join(f"({number}, '{text}')" for number, text in enumerate(texts))
    query = f"from (values {rows}) as t(n, text) order by n"
    assert main(["sql", "--lake", str(shared_lake), query, "--csv"]) == 0
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["text"] for row in read] == texts


def test_tables_have_the_columns_that_the_schema_names(shared_lake: Path) -> None:
    con = database.connect(shared_lake)
    resolved = {table.name for table in (*TIMELINE_TABLES, *FIT_TABLES)}
    for table in ALL_TABLES:
        # a fact that is not resolved further tells which ingest read it
        batch = [] if table.name in resolved else ["batch"]
        assert con.table(table.name).columns == [*table.schema.names, *batch], table.name


# lakes that are not whole


def test_a_lake_without_a_timeline_is_told_apart_from_an_empty_answer(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "lake")
    assert main(["ingest", str(log), "--lake", path, "--jobs", "1"]) == 0
    capsys.readouterr()
    assert main(["sql", "--lake", path, "select count(*) as n from raw_train_event"]) == 0
    assert f"empty until `wallsplit split --lake {path}`" in capsys.readouterr().err
    for name in ("report", "check"):
        assert main([name, "--lake", path]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert f"no timeline yet; run `wallsplit split --lake {path}`" in err


def test_a_timeline_older_than_the_facts_is_warned_about(
    lake_dir: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--lake", str(lake_dir), "--format", "md"]) == 0
    assert capsys.readouterr().err == ""
    with log.open("a") as more:
        more.write("one more line\n")
    assert main(["ingest", str(log), "--lake", str(lake_dir), "--jobs", "1"]) == 0
    capsys.readouterr()
    for args in (["report", "--format", "md"], ["sql", "from run"], ["check"]):
        assert main([args[0], "--lake", str(lake_dir), *args[1:]]) == 0
        assert "older than the facts" in capsys.readouterr().err


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_missing_or_damaged_timeline_table_is_named_with_the_way_out(
    is_missing: bool, lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lake_dir / "timeline" / "segment.parquet"
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30])
    said = f"segment.parquet is {'missing' if is_missing else 'damaged'}; `wallsplit split"
    for args in (["report"], ["sql", "from run"], ["check"], ["show", "segment:x"]):
        assert main([*args, "--lake", str(lake_dir)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
    assert main(["split", "--lake", str(lake_dir)]) == 0
    assert main(["check", "--lake", str(lake_dir)]) == 0


@pytest.mark.parametrize(
    ("name", "query", "remedy"),
    [("timeline/segment.parquet", "from segment", "`wallsplit split"),
     ("facts/batch=000001/train_event.parquet", "from raw_train_event", "from a copy")],
)  # fmt: skip
def test_damage_inside_a_table_is_named_too(
    name: str, query: str, remedy: str, lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = (lake_dir / name).resolve()
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(byte ^ 0x5A for byte in data[4:60])  # the first page; the footer is whole
    path.write_bytes(data)
    for args in (["report"], ["sql", query]):
        assert main([*args, "--lake", str(lake_dir)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert f"cannot read {path}: " in err
        assert remedy in err


def test_a_timeline_of_another_release_is_told(
    lake_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    made = lake.timeline_dir(lake_dir)
    assert made is not None
    rows = pq.read_table(made / "run.parquet")
    pq.write_table(rows.drop_columns(["tor_low"]), made / "run.parquet")
    assert main(["report", "--lake", str(lake_dir)]) == 1
    assert "of another release, it has no tor_low; `wallsplit split" in capsys.readouterr().err
