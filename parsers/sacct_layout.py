"""The header line of `sacct` text: its columns, the delimiter, and what may break a row.

Source: sacct(1), JOB ACCOUNTING FIELDS and --parsable2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

KNOWN_COLUMNS = frozenset(
    """
    account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq
    avediskread avediskwrite avepages averss avevmsize blockid cluster comment constraints
    consumedenergy consumedenergyraw container cputime cputimeraw dbindex derivedexitcode elapsed
    elapsedraw eligible end exclusive exitcode extra failednode flags gid group jobid jobidraw
    jobname layout licenses maxdiskread maxdiskreadnode maxdiskreadtask maxdiskwrite
    maxdiskwritenode maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss maxrssnode
    maxrsstask maxvmsize maxvmsizenode maxvmsizetask mcslabel mincpu mincpunode mincputask ncpus
    nnodes nodelist ntasks originalsluid oversubscribe partition planned plannedcpu plannedcpuraw
    priority qos qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus
    reqgres reqmem reqnodes reqreservation reqtres reservation reservationid reserved resvcpu
    resvcpuraw restarts segmentsize sluid start state stderr stdin stdout submit submitline
    suspended systemcomment systemcpu timelimit timelimitraw totalcpu tresusageinave
    tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode
    tresusageinmintask tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode
    tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot
    uid user usercpu wckey wckeyid workdir
    """.split()
)

_FREE_TEXT = frozenset(
    """
    admincomment comment container extra jobname reqreservation reservation stderr stdin stdout
    submitline systemcomment wckey workdir
    """.split()
)

JOB_ID = re.compile(
    r"(?P<job>[0-9]{1,18}(?:_(?:[0-9]{1,18}|\[[^\]]{1,4096}\]))?(?:\+[0-9]{1,9})?)"
    r"(?:\.(?P<step>(?:batch|extern|interactive|TBD|[0-9]{1,18})(?:\+[0-9]{1,9})?))?"
)
"""A JobID cell: job, array task or remainder, heterogeneous component, step."""

_DASHES = re.compile(r"-+(?: +-+)+ *")
_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class Layout:
    """How the rows below a header line are cut into cells."""

    delimiter: str
    columns: tuple[str, ...]  # case-folded; a name that stands twice is numbered from its second
    has_trailing: bool  # a delimiter ends every row (sacct -p)
    is_padded: bool  # blanks around the names, so around the cells too
    header_offset: int  # byte position of the header line in the file

    @property
    def n_delimiters(self) -> int:
        """Delimiters of a whole row."""
        return len(self.columns) - (not self.has_trailing)

    @property
    def job_column(self) -> int:
        """Index of the column that says which job a row is of."""
        return self.columns.index("jobid" if "jobid" in self.columns else "jobidraw")

    @property
    def is_open_ended(self) -> bool:
        """Whether text may go on below a row that already has all of its cells."""
        return not self.has_trailing and self.may_break(len(self.columns) - 1)

    def may_break(self, column: int) -> bool:
        """Whether a cell of that column can hold a newline: free text and columns unknown to us."""
        if column >= len(self.columns):
            return False
        name = self.columns[column]
        return name in _FREE_TEXT or name not in KNOWN_COLUMNS

    def split(self, text: str) -> list[str]:
        """The cells of a whole row, without padding."""
        cells = text.split(self.delimiter)[: len(self.columns)]
        return [cell.strip(" ") for cell in cells] if self.is_padded else cells

    def begins_row(self, text: str) -> bool:
        """Whether the JobID cell stands whole in this line and looks like one."""
        at = self.job_column
        cells = text.split(self.delimiter, at + 1)
        is_whole = len(cells) > at + 1 or (len(cells) == at + 1 and at == len(self.columns) - 1)
        return is_whole and JOB_ID.fullmatch(cells[at].strip(" ")) is not None

    def same_as(self, other: Layout) -> bool:
        """Whether the rows below both headers read alike."""
        return (self.delimiter, self.columns, self.has_trailing) == (
            other.delimiter, other.columns, other.has_trailing,
        )  # fmt: skip

    def detail(self) -> dict[str, str]:
        """The layout as the detail of a sniff."""
        return {
            "delimiter": self.delimiter,
            "columns": _SEPARATOR.join(self.columns),
            "trailing": "1" if self.has_trailing else "0",
            "padded": "1" if self.is_padded else "0",
            "header_offset": str(self.header_offset),
        }


def layout_of(detail: Mapping[str, str]) -> Layout | None:
    """The layout that a sniff found; None for fixed-width output."""
    if "columns" not in detail:
        return None
    names = ("delimiter", "columns", "trailing", "padded", "header_offset")
    return _cached_layout(*(detail[name] for name in names))


@lru_cache(maxsize=64)
def _cached_layout(
    delimiter: str, columns: str, trailing: str, padded: str, header_offset: str
) -> Layout:
    names = tuple(columns.split(_SEPARATOR))
    return Layout(delimiter, names, trailing == "1", padded == "1", int(header_offset))


def read_header(line: str, offset: int = 0) -> Layout | None:
    """The layout of a header line: known names with one constant text between them; else None.

    Names are case-insensitive and may be padded with blanks. Most must be known to us and JobID or
    JobIDRaw must be among them.
    """
    if "jobid" not in line.lower():
        return None
    line = line.removeprefix("\ufeff")
    names = list(re.finditer(r"[A-Za-z][A-Za-z0-9]*", line))
    if len(names) < 2 or line[: names[0].start()].strip(" "):
        return None
    delimiter = line[names[0].end() : names[1].start()].strip(" ")
    if not delimiter:
        return None
    printed = line.split(delimiter)
    cells = [cell.strip(" ").lower() for cell in printed]
    is_padded = any(cell != cell.strip(" ") for cell in printed)
    has_trailing = cells[-1] == ""
    if has_trailing:
        cells.pop()
    n_known = sum(cell in KNOWN_COLUMNS for cell in cells)
    if "jobid" not in cells and "jobidraw" not in cells:
        return None
    if n_known < 2 or n_known < 0.8 * len(cells) or not all(cells):
        return None
    columns = tuple(c if c not in cells[:i] else f"{c} {i}" for i, c in enumerate(cells))
    return Layout(delimiter, columns, has_trailing, is_padded, offset)


def is_fixed_width_header(line: str, following: str | None) -> bool:
    """Whether a line is the header of sacct's default output, with dashes below it if known."""
    names = line.lower().split()
    if len(names) < 2 or "jobid" not in names or not KNOWN_COLUMNS.issuperset(names):
        return False
    return following is not None and is_dashes(following)


def is_dashes(line: str) -> bool:
    """Whether a line only underlines the names of a fixed-width header."""
    return _DASHES.fullmatch(line) is not None
