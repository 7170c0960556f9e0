"""Training-log dialects: what their rules make of one line.

A dialect is anchors by which it is recognised, and rules that turn lines into train events.
`parsers/dialect_files.py` reads them from TOML.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from parsers.clock import Stamp, parse_stamp
from parsers.formats import Row
from parsers.tables import MAX_TEXT_BYTES, StampSource

MAX_STEP: Final = 2**53
"""Beyond it a number is no step count but damage."""
MAX_RANK: Final = 2**31 - 1

KINDS: Final = frozenset(
    "attempt_start imports_done dist_init model_built data_built compile train_start train_config "
    "step metric evaluation checkpoint_save checkpoint_commit checkpoint_fail checkpoint_load "
    "resume fresh_start anomaly membership restart shutdown".split()
)
PHASES: Final = frozenset(("instant", "begin", "end"))
DETAILS: Final = {
    "step": frozenset(("progress_bar", "auxiliary")),
    "train_start": frozenset(("progress_bar",)),
    "checkpoint_save": frozenset(("scheduled",)),
    "anomaly": frozenset(
        "overflow_skip update_discarded nan_loss loss_spike loss_missing data_skip "
        "rerun_validation straggler clock_back".split()
    ),
    "membership": frozenset(("quorum_change", "heal", "shrink", "grow")),
    "restart": frozenset(("in_process", "in_job", "requeue")),
    "shutdown": frozenset("completed walltime sigterm exit_interval aborted truncated".split()),
}
"""What `detail` may say, by kind; the other kinds have none."""

# Name in a regex or map -> (column, factor to the column's unit). Text columns have no factor.
_INTEGERS: Final = {
    "step": "step_to", "step_from": "step_from", "n_steps": "n_steps", "total": "total_steps",
    "batch": "global_batch", "world": "world_size", "samples": "consumed_samples",
    "tokens": "tokens", "skipped": "skipped_steps", "nan_steps": "nan_steps", "rank": "rank",
}  # fmt: skip
_FLOATS: Final = {
    "dur_ms": ("duration_ms", 1.0), "dur_s": ("duration_ms", 1000.0),
    "step_ms": ("step_ms", 1.0), "step_s": ("step_ms", 1000.0),
    "loss": ("loss", 1.0), "grad_norm": ("grad_norm", 1.0), "lr": ("lr", 1.0),
    "tflops": ("tflops", 1.0), "tps": ("tps", 1.0),
}  # fmt: skip
_TEXTS: Final = {"ckpt_path": "checkpoint_path", "tier": "checkpoint_tier", "node": "node"}
_SPECIAL: Final = frozenset(("ts", "elapsed", "epoch", "epoch_steps", "rest", "dict"))
VOCABULARY: Final = frozenset((*_INTEGERS, *_FLOATS, *_TEXTS, *_SPECIAL))
TRANSFORMS: Final = frozenset(
    "step_from_path zero_based_step step_from_interval step_of_epoch literal_dict".split()
)

_SUFFIX: Final = {"K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
# `step=19400-consumed_samples=4966400` says it outright; else no other long number may follow
_STEP_IN_PATH = re.compile(
    r"\bstep=0*(\d+)|(?:checkpoint-|step[-_=]?|iter_|global_step)0*(\d+)(?!.*\d{3})"
)


@dataclass(frozen=True)
class Rejected:
    """A line that a rule claims and cannot read, and why."""

    reason: str


@dataclass(frozen=True)
class KeyValues:
    """How the group `rest` divides into keys and values."""

    sep: str
    assign: str
    map: Mapping[str, str]
    is_closed: bool = True  # a last piece without `sep` behind it is cut off, not a value


@dataclass(frozen=True, eq=False)
class Rule:
    """One kind of line of a dialect."""

    dialect: str
    id: str
    literals: tuple[str, ...]
    regex: re.Pattern[str]
    emit: Mapping[str, str]
    set: Mapping[str, object] = field(default_factory=dict)
    claim: re.Pattern[str] | None = None
    kv: KeyValues | None = None
    dict_map: Mapping[str, str] = field(default_factory=dict)
    transforms: tuple[str, ...] = ()
    has_suffixes: bool = False
    is_dense: bool = False
    overrides: str | None = None  # base dialect whose rule of the same id this one replaces

    def apply(self, payload: str) -> list[Row | Rejected]:
        """Train events that the payload states by this rule; empty where it does not match."""
        rows = [self._row(match) for match in self.regex.finditer(payload)]
        if not rows and self.claim is not None and self.claim.search(payload):
            return [Rejected(f"looks like {self.dialect} {self.id}, but is not complete")]
        return rows

    def _row(self, match: re.Match[str]) -> Row | Rejected:
        values = {k: v for k, v in match.groupdict().items() if v is not None}
        if self.kv is not None:
            values |= _split(values.get("rest", ""), self.kv)
        if "literal_dict" in self.transforms:
            read = _literal_dict(values.get("dict", ""), self.dict_map)
            if read is None:
                return Rejected(f"{self.dialect} {self.id}: not a dict of plain values")
            values |= read
        row: dict[str, object] = {
            "dialect": self.dialect,
            "phase": "instant",
            **self.emit,
            **self.set,
        }
        if row["kind"] != "step":  # step lines are many and all alike: `show` prints them
            row["message"] = match.group(0).strip()[:MAX_TEXT_BYTES]
        problem = _fill(row, values, has_suffixes=self.has_suffixes)
        if problem:
            return Rejected(f"{self.dialect} {self.id}: {problem}")
        if "step_from_path" in self.transforms and row.get("step_to") is None:
            row["step_to"] = step_in_path(str(row.get("checkpoint_path") or ""))
        if "zero_based_step" in self.transforms and isinstance(row.get("step_to"), int):
            row["step_to"] += 1  # type: ignore[operator]  # just checked
        if "step_of_epoch" in self.transforms and isinstance(row.get("step_to"), int):
            row["step_to"] = step_of_epoch(row["step_to"], values)
        if "step_from_interval" in self.transforms:
            before, n_steps = row.get("step_from"), row.get("n_steps")
            if isinstance(before, int) and isinstance(n_steps, int):
                row |= {"step_from": before + 1, "step_to": before + n_steps}
        return row


@dataclass(frozen=True)
class Dialect:
    """A training-log format."""

    name: str
    title: str
    versions: str
    anchors: tuple[str, ...]
    rules: tuple[Rule, ...]
    tests: tuple[tuple[str, Mapping[str, object]], ...] = ()
    near_misses: tuple[str, ...] = ()
    extends: str | None = None  # the rules of this dialect apply as well, where not overridden

    def read(self, payload: str) -> list[Row | Rejected]:
        """What every rule of the dialect makes of a payload."""
        return [
            row
            for rule in self.rules
            if any(literal in payload for literal in rule.literals)
            for row in rule.apply(payload)
        ]


def step_in_path(path: str) -> int | None:
    """The step that a checkpoint folder is named after, e.g. 40 of `out/checkpoint-40`."""
    found = _STEP_IN_PATH.search(path)
    step = int(found[1] or found[2]) if found else None
    return step if step is not None and step <= MAX_STEP else None


def step_of_epoch(step: object, values: Mapping[str, str]) -> int | None:
    """The step of the run, of a step that is counted anew in each epoch.

    `epoch` counts from 0. None where an epoch's length is unknown, but for the first epoch.
    """
    epoch, n_steps = (values.get(name, "") for name in ("epoch", "epoch_steps"))
    if not isinstance(step, int) or not epoch.isdecimal():
        return None
    if int(epoch) == 0:
        return step
    whole = int(epoch) * int(n_steps) + step if n_steps.isdecimal() else MAX_STEP + 1
    return whole if whole <= MAX_STEP else None


def stamp_columns(stamp: Stamp | None, source: StampSource) -> dict[str, object]:
    """The `stamp_*` columns of a fact."""
    if stamp is None:
        return {}
    return {
        "stamp_us": stamp.us,
        "stamp_kind": str(stamp.kind),
        "stamp_source": str(source),
        "stamp_resolution_s": stamp.resolution_s,
    }


def _split(rest: str, kv: KeyValues) -> dict[str, str]:
    pieces = rest.split(kv.sep)
    if kv.is_closed:
        pieces = pieces[:-1]
    values = {}
    for piece in pieces:
        key, assign, value = piece.partition(kv.assign)
        name = kv.map.get(key.strip())
        if assign and name is not None:
            values[name] = value.strip()
    return values


def _literal_dict(text: str, names: Mapping[str, str]) -> dict[str, str] | None:
    """Values by our names; old versions print floats, new ones quoted strings."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        # nan and inf are bare words in old versions, as null and true are in JSON
        found = dict(re.findall(r"""['"]([\w./-]+)['"]: ['"]?([-+\w.]+)['"]?""", text))
    if not isinstance(found, dict):
        return None
    return {names[k]: str(v) for k, v in found.items() if k in names}


def _fill(row: dict[str, object], values: Mapping[str, str], *, has_suffixes: bool) -> str | None:
    """Put values into their columns; the problem where a count cannot be a count."""
    for name, text in values.items():
        if name in _INTEGERS:
            number = _number(text, has_suffixes=has_suffixes)
            limit = MAX_RANK if name == "rank" else MAX_STEP
            if number is None or not math.isfinite(number) or not 0 <= number <= limit:
                return f"{name} is {text[:40]!r}, not a count"
            row[_INTEGERS[name]] = int(number)
        elif name in _FLOATS:
            column, factor = _FLOATS[name]
            number = _number(text, has_suffixes=has_suffixes)
            if number is not None:
                is_time = column in ("duration_ms", "step_ms")
                if is_time and not 0 <= number < 1e12:
                    return f"{name} is {text[:40]!r}, not a duration"
                row[column] = number * factor
        elif name in _TEXTS:
            row[_TEXTS[name]] = text.rstrip(".")[:MAX_TEXT_BYTES] or None
        elif name == "ts":
            row |= stamp_columns(parse_stamp(text), StampSource.INLINE)
        elif name == "elapsed":
            row["elapsed_s"] = _clock_s(text)
            row["elapsed_resolution_s"] = 1.0
            if row["elapsed_s"] is None:
                return f"elapsed is {text[:40]!r}, not h:mm:ss or seconds"
    return None


def _number(text: str, *, has_suffixes: bool) -> float | None:
    text = text.replace(",", "")
    factor = 1.0
    if has_suffixes and text[-1:].upper() in _SUFFIX:
        factor = _SUFFIX[text[-1].upper()]
        text = text[:-1]
    try:
        return float(text) * factor
    except ValueError:
        return None


def _clock_s(text: str) -> float | None:
    """Seconds of `mm:ss`, `h:mm:ss` or a plain number of them."""
    seconds = 0.0
    for part in text.split(":"):
        number = _number(part, has_suffixes=False)
        if number is None or not 0 <= number < MAX_STEP:
            return None
        seconds = seconds * 60 + number
    return seconds
