"""Host lists of accounting rows to the names that they mean, each distinct list read once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parsers.hostlist import HostlistError, expand

MAX_JOB_NODES = 16_384
MAX_STEP_NODES = 1_024
"""Longer host lists give no names, only their count: a block of them would not fit into memory."""

NONE_ASSIGNED = "None assigned"
"""What Slurm prints for a job that no node was allocated to."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def node_lists(coded: pa.DictionaryArray, is_step: Bools) -> pa.ListArray:
    """Host names by row; null where unknown, damaged or too many, empty for "None assigned".

    `coded` holds the host lists by distinct texts, null where there is none.
    """
    names: list[str] = []
    ends, is_unknown = [0], []
    for text in coded.dictionary.to_pylist():
        hosts = _hosts(text)
        names += hosts or ()
        ends.append(len(names))
        is_unknown.append(hosts is None)
    if not is_unknown:
        return pa.nulls(len(coded), pa.list_(pa.string()))
    lists = np.array(ends, np.int64)
    codes = coded.indices.fill_null(0).to_numpy()
    is_known = ~np.array(is_unknown)[codes] & coded.is_valid().to_numpy(zero_copy_only=False)
    is_known &= ~(is_step & (np.diff(lists)[codes] > MAX_STEP_NODES))
    return _taken(pa.array(names, pa.string()), lists, codes, is_known)


def _taken(names: pa.Array, ends: Ints, codes: Ints, is_known: Bools) -> pa.ListArray:
    """The lists `names[ends[code]:ends[code + 1]]` of all rows; Arrow's own take is slow."""
    lengths = np.where(is_known, ends[codes + 1] - ends[codes], 0)
    row_ends = np.concatenate(([0], np.cumsum(lengths)))
    shift = np.repeat(ends[codes] - row_ends[:-1], lengths)
    flat = names.take(pa.array(shift + np.arange(row_ends[-1])))
    return pa.ListArray.from_arrays(pa.array(row_ends, pa.int32()), flat, mask=pa.array(~is_known))


def _hosts(text: str) -> Sequence[str] | None:
    if text.strip() == NONE_ASSIGNED:
        return ()
    try:
        return expand(text, MAX_JOB_NODES) or None
    except HostlistError:
        return None
