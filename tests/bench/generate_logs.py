"""Write large synthetic logs for the benchmarks: `python -m tests.bench.generate_logs KIND OUT`.

The same kind, size and seed give the same bytes.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

N_LITERALS = 107
"""Size of the literal list of the reference measurement."""

_SIGNATURES = Path(__file__).parents[2] / "parsers" / "signatures"
_BEGIN = datetime(2026, 2, 1)  # noqa: DTZ001 - logs print wall clock without a zone
_BATCH_LINES = 5_000

_OWN_LITERALS = (
    "NVRM: Xid", "Watchdog caught collective operation timeout", "CUDA out of memory",
    "uncorrectable ECC error", "GPU has fallen off the bus", "NVLink error", "Got completion",
    "socketProgress: Connection closed", "ncclSystemError", "ncclRemoteError", "Bus error",
    "Segmentation fault", "Out of memory: Killed process", "oom-kill", "DUE TO NODE FAILURE",
    "DUE TO TIME LIMIT", "CANCELLED AT", "ChildFailedError", "RendezvousTimeoutError",
    "Stale file handle", "No space left on device", "Input/output error", "LustreError",
    "Broken pipe", "Connection reset by peer", "Unable to find address", "Mismatched collective",
    "cudaErrorLaunchFailure", "device-side assert triggered", "illegal memory access",
)  # fmt: skip


def literals(n_wanted: int = N_LITERALS) -> list[str]:
    """`n_wanted` literals spread evenly over the catalogue, or our own list without one.

    Literals that ordinary lines are full of are left out: the log must have sparse hits.
    """
    found: set[str] = set()
    for path in sorted(_SIGNATURES.glob("*.toml")):
        for row in tomllib.loads(path.read_text()).get("signature", []):
            if row.get("scan", "literal") == "literal":
                found.update(row["literals"])
    quiet = "".join(_filler(random.Random(0), i) for i in range(_BATCH_LINES))
    usable = sorted(text for text in found or _OWN_LITERALS if text not in quiet)
    n_taken = min(n_wanted, len(usable))
    return [usable[i * len(usable) // n_taken] for i in range(n_taken)]


def failure_lines(rng: random.Random, wanted: list[str], every: int) -> Iterator[str]:
    """Chatter of many ranks in which about one line in `every` holds a literal."""
    for number in count():
        line = _filler(rng, number)
        if rng.random() * every < 1:
            at = line.index(" ", 20)
            line = f"{line[:at]} {rng.choice(wanted)} {line[at:]}"
        yield line


_FILLER = """\
{node}:{pid}:{pid} [{gpu}] NCCL INFO Channel {gpu:02d}/0 : {rank}[{gpu}] -> {ms}[{gpu}] via P2P/IPC
[2026-02-01 {clock},{ms:03d}] [INFO] [data.py:{ms}:fetch] [Rank {rank}] shard {number} in {r:.3f} ms
{rank}: 2026-02-01 {clock}.{ms:03d} | DEBUG | worker:{ms} - prefetched sample {number} of {pid}
[rank{rank}]: (max, min) time across ranks (ms): forward-backward ....: ({r:.2f}, {r:.1f})
I0201 {clock}.{ms:06d} {pid} heartbeat.py:{ms}] rank {rank} alive on {node}, uptime {number} s
[Feb 1 {clock} 2026] {node} kernel: perf: interrupt took too long ({number} > 2500), lowering rate
{rank}: tensor model.layers.{gpu}.mlp.weight shape=[{pid}, {ms}] mean={r:.6e} std={r:.6f}
""".splitlines(keepends=True)


def _filler(rng: random.Random, number: int) -> str:
    """A line that no signature wants, in one of the usual forms."""
    rank, r = number % 64, rng.random()
    clock = f"{number // 90000 % 24:02d}:{number // 1500 % 60:02d}:{number // 25 % 60:02d}"
    return _FILLER[int(r * 7919) % len(_FILLER)].format(
        node=f"gpu{rank // 8:03d}", pid=1000 + number % 997, gpu=rank % 8, rank=rank,
        ms=int(r * 1000), clock=clock, number=number, r=r * 90,
    )  # fmt: skip


def megatron_lines(rng: random.Random, stamps: str) -> Iterator[str]:
    """Step lines of Megatron-LM; `stamps`: microsecond, second or none."""
    at, total = _BEGIN, 500_000
    for step in count(1):
        ms = 1800 + rng.random() * 40
        at += timedelta(milliseconds=ms)
        shown = "" if stamps == "none" else f"[{at.isoformat(' ', _TIMESPEC[stamps])}] "
        yield (
            f" {shown}iteration {step:8d}/{total:8d} | consumed samples: {step * 1024:12d} |"
            f" elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU):"
            f" {7.2e5 / ms:.1f} | learning rate: {3e-4 * (1 - step % total / total):.6E} |"
            f" global batch size:  1024 | lm loss: {2 + 8 / step**0.3 + rng.random() / 50:.6E} |"
            f" loss scale: 1.0 | grad norm: {rng.random():.3f} |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )


_TIMESPEC = {"microsecond": "microseconds", "second": "seconds"}


def torchtitan_lines(rng: random.Random) -> Iterator[str]:
    """Step lines of torchtitan, of one rank."""
    at = _BEGIN
    for step in count(1):
        s = 1.1 + rng.random() / 20
        at += timedelta(seconds=s)
        shown = at.isoformat(" ", "milliseconds").replace(".", ",")
        yield (
            f"[rank0]:[titan] {shown} - root - INFO - step: {step:2d}"
            f"  loss: {2 + 8 / step**0.3:8.5f}  grad_norm: {rng.random():7.4f}"
            f"  memory: {60 + rng.random():5.2f}GiB(75.51%)"
            f"  tps: {int(8192 / s):,}  tflops: {460 / s:,.2f}  mfu: {46.5 / s:.2f}%\n"
        )


def write(path: Path, n_bytes: int, lines: Iterator[str]) -> None:
    """Write whole lines until the file has at least `n_bytes`."""
    written = 0
    with path.open("wb") as out:
        while written < n_bytes:
            written += out.write("".join(next(lines) for _ in range(_BATCH_LINES)).encode())


def kinds(seed: int = 0, every: int = 2000) -> dict[str, Callable[[], Iterator[str]]]:
    """What can be generated, by name."""
    return {
        "failures": lambda: failure_lines(random.Random(seed), literals(), every),
        "megatron": lambda: megatron_lines(random.Random(seed), "microsecond"),
        "megatron-seconds": lambda: megatron_lines(random.Random(seed), "second"),
        "megatron-unstamped": lambda: megatron_lines(random.Random(seed), "none"),
        "torchtitan": lambda: torchtitan_lines(random.Random(seed)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(kinds()))
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=2000, help="lines per hit (failures only)")
    args = parser.parse_args()
    write(args.out, int(args.megabytes * 1e6), kinds(args.seed, args.every)[args.kind]())


if __name__ == "__main__":
    main()
