"""Write the reference pages of docs/ that are made from code and data.

python -m tests.make_docs            write docs/{commands,tables,formats,strategies,scenarios}.md
python -m tests.make_docs --check    fail where a committed page differs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from parsers.dialect_files import load_dialects, read_line
from parsers.faults import load_catalogue
from parsers.formats import all_formats
from parsers.training import Dialect, Rule
from pipeline.cli import EPILOG, build_parser
from pipeline.schema import ALL_TABLES
from pipeline.strategies import Change
from pipeline.strategies import load_catalogue as load_strategies
from tests.scenario_page import scenarios

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
        "Instants are UTC. An unknown is null. `raw_TABLE` holds the facts of a table as the logs",
        "say them; raw facts, and `accounting_row`, `clock_mark` and `reject`, carry `batch` as",
        "well: the number of the ingest that read them ([evidence.md](evidence.md)).",
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

A log may speak several; all are tried on every line. What a framework does not print is inferred,
with a bound: the page on [how a second is counted](how-a-second-is-counted.md) says how. A fork
also has what its parent reads. [Yours](dialects.md) is one more file.

| dialect | framework | versions | kinds of events | a step tells | must be inferred |
|---|---|---|---|---|---|"""

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
        told = ", ".join(sorted(_names(_rules(d, "step"))))
        inferred = ", ".join(_inferred(d)) or "-"
        row = (f"`{d.name}`", d.title, d.versions, ", ".join(kinds), told or "-", inferred)
        lines.append(f"| {' | '.join(row)} |")
    lines.append(SIGNATURES_HEAD)
    signatures = load_catalogue().signatures
    for component in sorted({s.component for s in signatures}):
        rows = [s for s in signatures if s.component == component]
        roles = ", ".join(sorted({s.role for s in rows}))
        lines.append(f"| `{component}` | {len(rows)} | {sum(s.verified for s in rows)} | {roles} |")
    return "\n".join([*lines, ""])


def _rules(dialect: Dialect, kind: str) -> list[Rule]:
    """The rules of a kind, with those that a fork keeps of its parent."""
    parents = [d for d in load_dialects() if d.name == dialect.extends]
    return [r for d in (dialect, *parents) for r in d.rules if r.emit["kind"] == kind]


def _names(rules: Iterable[Rule]) -> set[str]:
    """What lines tell by these rules, in the words of users' dialects."""
    names = {
        name
        for r in rules
        for name in (
            *r.regex.groupindex, *r.dict_map.values(), *(r.kv.map.values() if r.kv else ()),
        )
    }  # fmt: skip
    return names - {"rest", "dict", "epoch", "epoch_steps"}


def _inferred(dialect: Dialect) -> Iterator[str]:
    """What the dialect's lines do not say and the timeline must find out."""
    steps = _rules(dialect, "step")
    if not steps:
        return
    if not _names(steps) & {"step_ms", "step_s"}:
        yield "step time"
    stamped = [
        "stamp_us" in row
        for line, _ in dialect.tests
        for row in read_line(dialect, line)
        if isinstance(row, dict) and row["kind"] == "step"
    ]
    if not all(stamped):
        yield "time of day" if not any(stamped) else "time of day (some versions)"
    saves = {r.emit.get("phase", "instant") for r in _rules(dialect, "checkpoint_save")}
    if not saves:
        yield "saves"
    elif saves == {"end"}:
        yield "begin of a save"
    elif "end" not in saves:
        yield "end of a save"
    if not any(
        "step" in _names([r]) or "step_from_path" in r.transforms
        for kind in ("resume", "checkpoint_load") for r in _rules(dialect, kind)
    ):  # fmt: skip
        yield "step of a resume"
    if not _rules(dialect, "shutdown"):
        yield "whether it ended"


STRATEGIES_HEAD = """\
# Strategies

Published figures that `wallsplit predict --strategy` applies. A change sets a parameter, or
multiplies it (x), from its worst to its best figure. A claim ("up to") and a simulated figure begin
at no effect. The symbols are those of [tor.md](tor.md); `lambda` is the rate of failures, `down` is
detection and restart together. Changes of D, R, down, loss and lambda hold for the covered kinds of
failures.
"""


def strategies() -> str:
    """Every strategy with its changes, and the kinds of failures."""
    catalogue = load_strategies()
    lines = [STRATEGIES_HEAD]
    for s in catalogue.strategies.values():
        link = f"[{s.source}]({s.url})" if s.url else s.source
        lines += [f"## {s.id}", "", f"{s.title}. {link}. {s.notes}", ""]
        facts = {
            "evidence": f"{s.evidence}; {s.scale or 'scale not known'}",
            "claim": s.claim,
            "covers": ", ".join(s.covers),
            "needs": "; ".join(s.requires),
        }
        lines += [f"- {k}: {v}" for k, v in facts.items() if v]
        lines.append("")
        if s.changes:
            lines += ["| change | figures | evidence | condition |", "|---|---|---|---|"]
            lines += [*(_change(c) for c in s.changes), ""]
    lines += ["## Kinds of failures", "", "| kind | components |", "|---|---|"]
    for kind in dict.fromkeys(catalogue.kinds.values()):
        names = ", ".join(f"`{c}`" for c, k in catalogue.kinds.items() if k == kind)
        lines.append(f"| {kind.replace('_', ' ')} | {names} |")
    return "\n".join([*lines, ""])


def _change(change: Change) -> str:
    """One row: `R (load)`, `x 1 to 0.077`."""
    name = change.parameter + (f" ({change.part})" if change.part else "")
    sign = "x " if change.is_factor else ""
    ends = [
        f"{v:g}" for k in ("worst", "typical", "best") if (v := change.values.get(k)) is not None
    ]
    if change.is_claim and ends:
        ends.insert(0, "1" if change.is_factor else "no effect")
    figures = f"{sign}{' to '.join(dict.fromkeys(ends))} {change.unit or ''}".strip()
    where = change.condition + (f"; against {change.relative_to}" if change.relative_to else "")
    return f"| {name} | {figures if ends else 'none known'} | {change.evidence} | {where} |"


def pages() -> dict[str, str]:
    """Every generated page by its name."""
    return {
        "commands.md": commands(),
        "tables.md": tables(),
        "formats.md": formats(),
        "strategies.md": strategies(),
        "scenarios.md": scenarios(),
    }


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
