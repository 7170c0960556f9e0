"""The errors that users see: what happened, where, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Sequence


class WallsplitError(Exception):
    """Any failure that a message explains; exit code 1."""

    exit_code = 1


class UsageError(WallsplitError):
    """Wrong arguments or configuration; exit code 2."""

    exit_code = 2


class ParameterError(UsageError, ValueError):
    """Parameters of a model that cannot be; the message names every one, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        """One line per problem: name, value, what was expected."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LakeError(WallsplitError):
    """A lake that cannot be read or written."""


class OutputError(WallsplitError):
    """A result that cannot be written where it was asked for."""


class EvidenceError(WallsplitError):
    """Evidence that cannot be found or no longer says what was parsed."""
