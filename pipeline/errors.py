"""The errors that users see: what happened, where, what was expected, what to do."""


class WallsplitError(Exception):
    """Any failure that a message explains; exit code 1."""

    exit_code = 1


class UsageError(WallsplitError):
    """Wrong arguments or configuration; exit code 2."""

    exit_code = 2


class LakeError(WallsplitError):
    """A lake that cannot be read or written."""


class OutputError(WallsplitError):
    """A result that cannot be written where it was asked for."""


class EvidenceError(WallsplitError):
    """Evidence that cannot be found or no longer says what was parsed."""
