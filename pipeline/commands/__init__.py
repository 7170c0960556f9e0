"""One module per command: HELP, add_arguments(parser) and run(args) -> exit code.

Data goes to stdout, progress and warnings to stderr. Heavy imports stand inside `run`, so that
`wallsplit --help` stays fast.
"""

from __future__ import annotations

from types import ModuleType

from pipeline.commands import (
    check,
    compare,
    demo,
    explain,
    facts,
    fit,
    ingest,
    metrics,
    postmortem,
    predict,
    report,
    run,
    schema,
    show,
    simulate,
    split,
    sql,
)

# in the order in which `wallsplit --help` shows them
COMMANDS: dict[str, ModuleType] = {
    "demo": demo,
    "run": run,
    "ingest": ingest,
    "facts": facts,
    "explain": explain,
    "split": split,
    "sql": sql,
    "schema": schema,
    "metrics": metrics,
    "predict": predict,
    "report": report,
    "postmortem": postmortem,
    "compare": compare,
    "show": show,
    "check": check,
    "fit": fit,
    "simulate": simulate,
}
