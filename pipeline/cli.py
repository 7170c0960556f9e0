"""The command line: the only place that prints and exits.

Data goes to stdout, progress and warnings to stderr. Heavy imports stand inside the commands.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import UsageError, WallsplitError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pipeline.catalog import IngestOptions
    from pipeline.config import Config
    from pipeline.ingest import IngestSummary

Run = Callable[[argparse.Namespace], int]

EPILOG = """\
exit codes: 0 done; 1 failed, or explain/check found something; 2 wrong usage or configuration;
3 done, but more records were unreadable than reject_limit allows
"""
MAX_WARNINGS = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.version:
        print(f"wallsplit {_version()}")
        return 0
    if args.command is None:
        parser.print_help()
        return 0
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader has seen enough; keep the interpreter from flushing into the pipe again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _explained_errors() as error:
        if os.environ.get("WALLSPLIT_DEBUG") == "1":
            raise
        print(_harmless(f"wallsplit {args.command}: {error}"), file=sys.stderr)
        return error.exit_code if isinstance(error, WallsplitError) else 1
    except KeyboardInterrupt:
        print("wallsplit: interrupted; the lake is as it was", file=sys.stderr)
        return 1
    return code


def _explained_errors() -> tuple[type[Exception], ...]:
    """Errors whose message is for users: ours, the system's, and DuckDB's where it is in use."""
    duckdb = sys.modules.get("duckdb")
    return (WallsplitError, OSError, *(() if duckdb is None else (duckdb.Error,)))


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wallsplit")
    except PackageNotFoundError:
        return "(not installed)"


def build_parser() -> argparse.ArgumentParser:
    """Every command with its options; the CLI reference is made from it."""
    parser = argparse.ArgumentParser(
        prog="wallsplit",
        description="Where did a training run's wall-clock time go, what did failures cost?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, run: Run, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, epilog=EPILOG,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
        sub.set_defaults(run=run)
        return sub

    demo = command("demo", _demo, "the main job on the packaged sample logs")
    demo.add_argument("--out", type=Path, default=Path("wallsplit-demo"), metavar="DIR",
                      help="folder for lake and reports (default: %(default)s)")  # fmt: skip

    run = command("run", _run, "ingest what is new, split, write reports: the nightly job")
    _reading_options(run)
    run.add_argument("--out", type=Path, metavar="DIR", help="reports (default: LAKE/reports)")
    run.add_argument("--json", action="store_true", help="print the JSON report")

    ingest = command("ingest", _ingest, "facts only: read what is new into the lake")
    _reading_options(ingest)
    ingest.add_argument("--json", action="store_true", help="print what was read as JSON")

    facts = command("facts", _facts, "the facts of files as JSON lines, without a lake")
    facts.add_argument("paths", nargs="+", metavar="FILE", help="file, folder or glob")
    facts.add_argument("--table", metavar="NAME", help="only this table")
    _parsing_options(facts)

    explain = command("explain", _explain, "what is recognised in files, and what is not")
    explain.add_argument("paths", nargs="+", metavar="FILE", help="file, folder or glob")
    explain.add_argument("--json", action="store_true", help="print JSON")
    _parsing_options(explain)

    split = command("split", _split, "rebuild the timeline tables from the facts")
    _lake_option(split)

    sql = command("sql", _sql, "run SQL over every fact and timeline table by name")
    _lake_option(sql)
    sql.add_argument("query", metavar="SQL", help="one statement, e.g. 'select * from run'")
    form = sql.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one array of objects")
    form.add_argument("--csv", action="store_true", help="CSV with a header line")

    schema = command("schema", _schema, "every table: grain, key, columns, types, units, meaning")
    schema.add_argument("--json", action="store_true", help="print JSON")

    report = command("report", _report, "reports: html, md or json")
    _lake_option(report)
    report.add_argument("--run", dest="run_id", metavar="RUN", help="only this run")
    report.add_argument("--since", metavar="T", help="only runs that end after this instant")
    report.add_argument("--until", metavar="T", help="only runs that start before this instant")
    report.add_argument("--format", choices=("html", "md", "json"), default="html")
    report.add_argument(
        "--out",
        type=Path,
        metavar="PATH",
        help="file (default: stdout for md and json, LAKE/reports/ for html)",
    )

    show = command("show", _show, "the raw lines behind a fact, segment or incident")
    evidence = "FILE:LINE, segment:ID, incident:ID or fact:TABLE:FILE_ID:LINE"
    show.add_argument("evidence", metavar="EVIDENCE", help=evidence)
    _lake_option(show, required=False)

    check = command("check", _check, "every invariant over a lake; exit 1 if one is broken")
    _lake_option(check)
    return parser


def _lake_option(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--lake", type=Path, required=required, metavar="DIR",
                        help="folder with facts and timeline tables")  # fmt: skip


def _parsing_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timezone", metavar="ZONE",
                        help="IANA zone of times without offset (default: UTC)")  # fmt: skip
    parser.add_argument("--format", metavar="NAME", help="take files as this format")
    parser.add_argument("--dialects", action="append", default=[], metavar="DIR",
                        help="folder with your own training-log dialects")  # fmt: skip


def _reading_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file, folder or glob")
    _lake_option(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML")
    parser.add_argument("--cluster", metavar="NAME", help="cluster that the logs belong to")
    _parsing_options(parser)
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: the cores)")


def _options(args: argparse.Namespace, config: Config) -> IngestOptions:
    """Checked reading options; every mistake at once."""
    from parsers.formats import all_formats
    from parsers.training import DialectError, load_dialects
    from pipeline.catalog import IngestOptions
    from pipeline.config import timezone_problems

    zone = args.timezone or config.timezone
    problems = timezone_problems(zone) if zone else []
    names = [f.name for f in all_formats()]
    if args.format is not None and args.format not in names:
        problems.append(f"unknown format {args.format!r}; known: {', '.join(names)}")
    if getattr(args, "jobs", None) is not None and args.jobs < 1:
        problems.append(f"--jobs {args.jobs}: expected 1 or more")
    try:
        load_dialects(tuple(args.dialects))
    except DialectError as error:
        problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    cluster = getattr(args, "cluster", None) or config.cluster
    return IngestOptions(cluster, zone, args.format, tuple(args.dialects))


def _read(args: argparse.Namespace) -> tuple[Config, IngestSummary]:
    """Ingest as the command's options say; (settings, summary)."""
    from pipeline import config, executor, ingest

    settings = config.load(args.config)
    options = _options(args, settings)
    summary = ingest.ingest(
        args.paths, args.lake, options, jobs=args.jobs or executor.default_jobs(),
        progress=ingest.ProgressLine(),
    )  # fmt: skip
    for warning in summary.warnings[:MAX_WARNINGS]:
        print(f"warning: {_harmless(warning)}", file=sys.stderr)
    if len(summary.warnings) > MAX_WARNINGS:
        print(f"warning: {len(summary.warnings) - MAX_WARNINGS} more", file=sys.stderr)
    return settings, summary


def _exit_code(settings: Config, summary: IngestSummary) -> int:
    """3 where more records were unreadable than the settings allow."""
    limit = settings.reject_limit * summary.claimed_lines
    if summary.n_rejects <= limit:
        return 0
    share = summary.n_rejects / summary.claimed_lines
    print(
        f"warning: {summary.n_rejects} of {summary.claimed_lines} claimed records ({share:.1%}) "
        "could not be read; see the table reject",
        file=sys.stderr,
    )
    return 3


def _ingest(args: argparse.Namespace) -> int:
    from pipeline.rows import to_json

    settings, summary = _read(args)
    if args.json:
        print(to_json({
            "batch": summary.batch, "files": summary.n_files, "unchanged": summary.n_unchanged,
            "duplicates": summary.n_duplicates, "bytes": summary.n_bytes,
            "lines": summary.n_lines, "claimed_lines": summary.claimed_lines,
            "facts": summary.n_facts, "rejects": summary.n_rejects,
            "rows": dict(sorted(summary.n_rows.items())), "warnings": summary.warnings,
        }))  # fmt: skip
    else:
        print(_summary_text(summary))
    return _exit_code(settings, summary)


def _summary_text(summary: IngestSummary) -> str:
    if summary.batch is None:
        return f"nothing new in {summary.n_unchanged} files"
    return (
        f"{summary.n_files} files, {summary.n_lines:,} lines, {summary.n_bytes / 1e6:,.1f} MB: "
        f"{summary.n_facts:,} facts, {summary.n_rejects:,} rejects "
        f"({summary.n_unchanged} files unchanged)"
    )


def _run(args: argparse.Namespace) -> int:
    from pipeline import lake, timeline
    from pipeline.report import build

    settings, summary = _read(args)
    lake.require_lake(args.lake)
    if not timeline.is_current(args.lake):
        timeline.rebuild(args.lake)
    report = build(args.lake)
    out = args.out or args.lake / "reports"
    html = report.write(out)
    if args.json:
        print(report.to_json())
    else:
        print(_summary_text(summary))
        print(_harmless(report.to_terminal()))
        print(f"report: {html}")
    return _exit_code(settings, summary)


def _demo(args: argparse.Namespace) -> int:
    from pipeline.resources import samples_dir

    namespace = argparse.Namespace(
        paths=[str(samples_dir() / "logs")], lake=args.out / "lake", out=args.out / "reports",
        config=samples_dir() / "wallsplit.toml", cluster=None, timezone=None, format=None,
        dialects=[], jobs=1, json=False,
    )  # fmt: skip
    return _run(namespace)


def _facts(args: argparse.Namespace) -> int:
    import tempfile

    from pipeline import config, database, ingest, timeline
    from pipeline.rows import plain_rows, to_json

    tables = ("attempt", "attempt_step", "train_event", "fault_event", "clock_mark", "reject")
    if args.table is not None and args.table not in tables:
        raise UsageError(f"unknown table {args.table!r}; expected one of {', '.join(tables)}")
    options = _options(args, config.Config())
    with tempfile.TemporaryDirectory(prefix="wallsplit-") as folder:
        lake_dir = Path(folder)
        summary = ingest.ingest(args.paths, lake_dir, options)
        for warning in summary.warnings:
            print(f"warning: {_harmless(warning)}", file=sys.stderr)
        timeline.rebuild(lake_dir)
        con = database.connect(lake_dir)
        for name in tables if args.table is None else (args.table,):
            for row in plain_rows(con.table(name)):
                row.pop("batch", None)
                print(to_json({"table": name, **row}))
    return 0


def _explain(args: argparse.Namespace) -> int:
    from pipeline import config, explain
    from pipeline.rows import to_json

    found = explain.explain(args.paths, _options(args, config.Config()))
    if args.json:
        print(to_json([e.as_dict() for e in found]))
    else:
        for e in found:
            print(_harmless(explain.as_text(e), keep="\n"))
    return 1 if any(e.is_unrecognised_training for e in found) else 0


def _split(args: argparse.Namespace) -> int:
    from pipeline import lake, timeline

    summary = timeline.rebuild(lake.require_lake(args.lake))
    for name, n_rows in summary.n_rows.items():
        print(f"{name:20} {n_rows:>12,}")
    return 0


def _sql(args: argparse.Namespace) -> int:
    import csv

    import duckdb

    from pipeline import database, lake
    from pipeline.rows import plain_rows, to_json

    con = database.connect(lake.require_lake(args.lake))
    try:
        relation = con.sql(args.query)
        if relation is None:
            return 0
        rows = plain_rows(relation)
        if args.json:
            print(to_json(list(rows)))
        elif args.csv:
            writer = csv.DictWriter(sys.stdout, relation.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        else:
            _print_table(relation.columns, rows)
    except duckdb.Error as error:
        raise UsageError(f"the query failed: {error}") from error
    return 0


def _print_table(columns: list[str], rows: Iterable[dict[str, object]]) -> None:
    """Columns as wide as their widest cell, cells bounded, one row a line."""
    cells = [columns, *([_harmless("" if v is None else str(v))[:60] for v in row.values()]
                        for row in rows)]  # fmt: skip
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())


def _schema(args: argparse.Namespace) -> int:
    from pipeline.rows import to_json
    from pipeline.schema import ALL_TABLES

    if args.json:
        print(to_json([
            {
                "table": t.name, "grain": t.grain, "key": list(t.key),
                "columns": [
                    {"name": c.name, "type": str(c.type), "unit": c.unit, "meaning": c.meaning}
                    for c in t.columns
                ],
            }
            for t in ALL_TABLES
        ]))  # fmt: skip
        return 0
    for table in ALL_TABLES:
        print(f"{table.name}: {table.grain}\n  key: {', '.join(table.key)}")
        for c in table.columns:
            unit = f" [{c.unit}]" if c.unit else ""
            print(f"  {c.name:22} {c.type!s:28} {c.meaning}{unit}")
        print()
    return 0


def _report(args: argparse.Namespace) -> int:
    from pipeline import lake
    from pipeline.report import build

    lake.require_lake(args.lake)
    report = build(args.lake, args.run_id, _instant(args.since), _instant(args.until))
    if args.format == "html":
        path = args.out or args.lake / "reports" / "report.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report.to_html())
        print(path)
        return 0
    text = report.to_json() if args.format == "json" else report.to_markdown()
    if args.out:
        args.out.write_text(text + "\n")
    else:
        print(text)
    return 0


def _instant(text: str | None) -> datetime | None:
    """An instant of ISO 8601; UTC where it names no zone."""
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no instant; expected e.g. 2026-02-01T00:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _show(args: argparse.Namespace) -> int:
    from pipeline.show import show

    for line in show(args.evidence, args.lake):
        note = f"  [{line.note}]" if line.note else ""
        print(_harmless(f"{line.path}:{line.line}:{note} {line.text}"))
    return 0


def _check(args: argparse.Namespace) -> int:
    from pipeline import lake, timeline

    violations = timeline.check(lake.require_lake(args.lake))
    for v in violations:
        print(f"{v.check}: {v.n_rows} rows break it: {v.meaning}")
        for example in v.examples:
            print(f"  {_harmless(example)}")
    if not violations:
        print("every invariant holds")
    return 1 if violations else 0


def _harmless(text: str, keep: str = "\n") -> str:
    from pipeline.rows import harmless

    return keep.join(harmless(part) for part in text.split(keep))


if __name__ == "__main__":
    sys.exit(main())
