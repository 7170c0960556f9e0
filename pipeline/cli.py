"""The command line: the arguments, the exit codes, the words for errors.

The commands themselves, the only places that print, are in `pipeline/commands/`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pipeline.commands import COMMANDS
from pipeline.commands.output import harmless
from pipeline.errors import WallsplitError

EPILOG = """\
exit codes: 0 done; 1 failed, explain met a training log that it cannot read, or check a broken
invariant; 2 wrong usage or configuration; 3 done, but more records were unreadable than
reject_limit allows
"""


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
        told = error if isinstance(error, WallsplitError | OSError) else _damage(args) or error
        print(harmless(f"wallsplit {args.command}: {told}"), file=sys.stderr)
        return error.exit_code if isinstance(error, WallsplitError) else 1
    except KeyboardInterrupt:
        print("wallsplit: interrupted; the lake is as it was", file=sys.stderr)
        return 1
    return code


def _explained_errors() -> tuple[type[Exception], ...]:
    """Errors whose message is for users: ours, the system's, and DuckDB's where it is in use."""
    duckdb = sys.modules.get("duckdb")
    return (WallsplitError, OSError, *(() if duckdb is None else (duckdb.Error,)))


def _damage(args: argparse.Namespace) -> WallsplitError | None:
    """Which file of the lake DuckDB may have failed on; it does not tell."""
    from pipeline.database import damage

    lake = getattr(args, "lake", None)
    return None if lake is None else damage(lake)


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
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
