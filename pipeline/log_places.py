"""From places in a whole log back to the files of a rotated set.

The stages of `sql/` see the files of one log as if they were joined. What is published must name
the file in which a line stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Ints = npt.NDArray[np.int64]

_LOG_BYTES = 1 << 44
"""More bytes than a log has: log number x this + byte orders the bytes of all logs."""

_PARTS = """
select log_id, file_id, bytes_before, lines_before, bytes_before + byte_from as begins_at
from log_part
qualify max(part_no) over (partition by log_id) > 1 or bytes_before <> 0
order by log_id, begins_at
"""


@dataclass(frozen=True)
class Places:
    """Where the files of logs of several files begin in their logs, by log and byte."""

    log_ids: pa.Array  # distinct
    begins: _Ints  # number of the log x _LOG_BYTES + byte
    file_ids: pa.ChunkedArray
    bytes_before: _Ints
    lines_before: _Ints

    def in_files(self, rows: pa.Table) -> pa.Table:
        """The rows with file_id, line, byte_offset and seq of the file in which each stands.

        Rows of other files, and without any, stay as they are.
        """
        names = rows.column_names
        if not len(self.log_ids) or not {"file_id", "byte_offset"} <= set(names):
            return rows
        log = pc.index_in(rows.column("file_id"), value_set=self.log_ids)
        is_moved = pc.is_valid(log)
        if not pc.any(is_moved).as_py():
            return rows
        part = self._part(log, rows.column("byte_offset"))
        moved = {"file_id": self.file_ids.take(part)}
        for name, before in (
            ("line", self.lines_before), ("byte_offset", self.bytes_before),
            ("seq", self.bytes_before),
        ):  # fmt: skip
            if name in names:
                moved[name] = pc.subtract(rows.column(name), pa.array(before[part]))
        for name, column in moved.items():
            kept = pc.if_else(is_moved, column, rows.column(name))
            rows = rows.set_column(names.index(name), name, kept)
        return rows

    def _part(self, log: pa.ChunkedArray, byte_offset: pa.ChunkedArray) -> _Ints:
        """Index of the file that holds a byte of a log; any one where there is no log."""
        number: _Ints = pc.fill_null(log, 0).to_numpy().astype(np.int64)
        at: _Ints = number * _LOG_BYTES + pc.fill_null(byte_offset, 0).to_numpy()
        part: _Ints = np.searchsorted(self.begins, at, side="right") - 1
        return np.maximum(part, 0)


def places(con: duckdb.DuckDBPyConnection) -> Places:
    """The places of all logs of several files, from the stage `log_part`."""
    parts = con.sql(_PARTS).to_arrow_table()
    log_ids = pc.unique(parts.column("log_id"))
    number = pc.index_in(parts.column("log_id"), value_set=log_ids).to_numpy().astype(np.int64)
    return Places(
        log_ids,
        number * _LOG_BYTES + parts.column("begins_at").to_numpy(),
        parts.column("file_id"),
        parts.column("bytes_before").to_numpy(),
        parts.column("lines_before").to_numpy(),
    )
