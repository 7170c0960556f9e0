"""Write the reference pages of docs/ that are made from code and data.

python -m tests.make_docs            write docs/commands.md, tables.md and formats.md
python -m tests.make_docs --check    fail where a committed page differs
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from parsers.dialect_files import load_dialects
from parsers.faults import load_catalogue
from parsers.formats import all_formats
from parsers.training import Dialect
from pipeline.cli import EPILOG, build_parser
from pipeline.schema import ALL_TABLES

DOCS = Path(__file__).parents[1] / "docs"


def commands() -> str:
    """Every command with its arguments."""
    parser = build_parser()
    streams = "Data goes to stdout, progress and warnings to stderr."
    lines = ["# Commands", "", streams, "", EPILOG.strip(), ""]
    choices = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
    for name, sub in choices.items():
        lines += [f"## wallsplit {name}", "", f"{sub.description}.", ""]
        rows = [a for a in sub._actions if not isinstance(a, argparse._HelpAction)]
        if rows:
            lines += ["| argument | meaning |", "|---|---|"]
            lines += [f"| `{_spelling(a)}` | {_meaning(a)} |" for a in rows]
            lines.append("")
    return "\n".join(lines)


def _spelling(action: argparse.Action) -> str:
    value = action.metavar or ("\\|".join(action.choices) if action.choices else "")
    if not action.option_strings:
        return f"{value}{'...' if action.nargs == '+' else ''}"
    return " ".join([action.option_strings[-1], str(value)]).strip()


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("|", "\\|")
    return text + (" (required)" if action.required and action.option_strings else "")


def tables() -> str:
    """Every table with its columns."""
    lines = [
        "# Tables",
        "",
        "`wallsplit sql` can ask each by name; `wallsplit schema` prints this page.",
        "Instants are UTC. An unknown is null.",
        "",
    ]
    for table in ALL_TABLES:
        key = ", ".join(f"`{k}`" for k in table.key)
        lines += [f"## {table.name}", "", f"{table.grain.capitalize()}. Key: {key}.", ""]
        lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{c.name}` | {c.type} | {c.unit or ''} | {c.meaning} |" for c in table.columns
        ]
        lines.append("")
    return "\n".join(lines)


FORMATS_HEAD = """\
# Formats

What wallsplit reads. A file's format is recognised from its content. Plain, gz and zst files are
read alike.

| format | reads |
|---|---|"""

DIALECTS_HEAD = """
## Training-log dialects

A log may speak several. `stated` means that the line itself says it; the rest is inferred, with a
bound.

| dialect | framework | versions | kinds of events | step time |
|---|---|---|---|---|"""

SIGNATURES_HEAD = """
## Failure signatures

| component | signatures | seen in real logs | roles |
|---|---|---|---|"""


def formats() -> str:
    """Formats, dialects and families of signatures."""
    lines = [FORMATS_HEAD]
    lines += [f"| `{f.name}` | {str(f.__doc__).strip().splitlines()[0]} |" for f in all_formats()]
    lines.append(DIALECTS_HEAD)
    for d in load_dialects():
        kinds = sorted({str(r.emit["kind"]) for r in d.rules} - {"train_config", "metric"})
        row = (f"`{d.name}`", d.title, d.versions, ", ".join(kinds), _step_time(d))
        lines.append(f"| {' | '.join(row)} |")
    lines.append(SIGNATURES_HEAD)
    signatures = load_catalogue().signatures
    for component in sorted({s.component for s in signatures}):
        rows = [s for s in signatures if s.component == component]
        roles = ", ".join(sorted({s.role for s in rows}))
        lines.append(f"| `{component}` | {len(rows)} | {sum(s.verified for s in rows)} | {roles} |")
    return "\n".join([*lines, ""])


def _step_time(dialect: Dialect) -> str:
    """Where a dialect's step times come from."""
    steps = [r for r in dialect.rules if r.emit["kind"] == "step"]
    if not steps:
        return "-"
    names = {n for r in steps for n in (*r.regex.groupindex, *(r.kv.map.values() if r.kv else ()))}
    if names & {"step_ms", "step_s"}:
        return "stated"
    return "from the bar's clock" if "elapsed" in names else "from time stamps"


def pages() -> dict[str, str]:
    """Every generated page by its name."""
    return {"commands.md": commands(), "tables.md": tables(), "formats.md": formats()}


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wrong = 0
    for name, text in pages().items():
        path = DOCS / name
        if not parser.parse_args().check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong += 1
            print(f"{path} is not what tests/make_docs.py writes", file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
