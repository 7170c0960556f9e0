"""Whole ingest against rg on the same bytes: `python -m tests.bench.bench_ingest`.

Steady state: the rate between a short and a long file of the same kind, so that start-up of
processes, imports and compilation does not count; both tools get the same literals, rg writes what
it finds to tmpfs. The memory of ingest is that of its largest process.
"""

from __future__ import annotations

# ruff: noqa: T201 - a script that prints its result
import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pipeline.ingest import ingest
from tests.bench.generate_logs import kinds, literals, write

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the peer's output must not wait for a disk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1600, help="size of the long file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", action="append", choices=sorted(kinds()))
    args = parser.parse_args()
    rg = shutil.which("rg")
    if rg is None:
        print("ripgrep is not installed (apt-get install ripgrep): no ratios", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        for kind in args.kind or ["failures", "megatron"]:
            compare(kind, Path(folder), args.megabytes, args.rounds, rg)


def compare(kind: str, folder: Path, megabytes: int, rounds: int, rg: str | None) -> None:
    """Print the rates of rg and of ingest with one and two processes."""
    short, long = folder / "short.log", folder / "long.log"
    write(short, megabytes * 250_000, kinds()[kind]())
    write(long, megabytes * 1_000_000, kinds()[kind]())
    wanted = [*literals(), "elapsed time per iteration", "  loss: "]
    patterns = folder / "literals"
    patterns.write_text("\n".join(wanted) + "\n")
    n_bytes = long.stat().st_size - short.stat().st_size

    def search(path: Path) -> None:
        command = [
            str(rg),
            "-n",
            "-b",
            "-a",
            "-F",
            "-j1",
            "--no-mmap",
            "--no-config",
            "-f",
            str(patterns),
            str(path),
        ]
        with (folder / "found").open("wb") as found:
            subprocess.run(command, stdout=found, check=False)

    def read(path: Path, jobs: int) -> None:
        lake = folder / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        ingest([str(path)], lake, jobs=jobs)

    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        if rg is not None:
            rates.setdefault("rg", []).append(n_bytes / between(search, short, long))
        for jobs in (1, 2):
            spent = between(lambda p, jobs=jobs: read(p, jobs), short, long)
            rates.setdefault(f"ingest --jobs {jobs}", []).append(n_bytes / spent)
    peer = statistics.median(rates["rg"]) if "rg" in rates else None
    print(f"{kind}, {megabytes} MB, median of {rounds} rounds")
    for name, values in rates.items():
        rate = statistics.median(values)
        ratio = f"{rate / peer:6.2f} x rg" if peer else ""
        print(f"  {name:18} {rate / 1e6:8.0f} MB/s {ratio}  ({min(values) / 1e6:.0f} to "
              f"{max(values) / 1e6:.0f})")  # fmt: skip
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"  largest process so far: {own:.0f} MB here, {worker:.0f} MB in workers and rg")


def between(run: Callable[[Path], None], short: Path, long: Path) -> float:
    """Seconds that the long file takes more than the short one."""
    begin = time.perf_counter()
    run(short)
    middle = time.perf_counter()
    run(long)
    return (time.perf_counter() - middle) - (middle - begin)


if __name__ == "__main__":
    main()
