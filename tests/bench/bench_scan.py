"""Compare block reading + scanning + line mapping with ripgrep on the same bytes and literals.

`python -m tests.bench.bench_scan`: one process, one thread each, interleaved rounds; both must
find the same lines at the same offsets. The log and rg's output lie on tmpfs or in the page cache.
"""

from __future__ import annotations

# ruff: noqa: T201 - a script that prints its result
import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from parsers.blocks import BlockReader
from parsers.scan import Pattern, Scanner
from tests.bench.generate_logs import N_LITERALS, kinds, literals, write

Found = npt.NDArray[np.int64]
"""(0-based line, byte offset) of every line that holds a literal."""


def scan_file(path: Path, scanner: Scanner) -> Found:
    """Every line of the file that holds a literal."""
    found = [np.empty((0, 2), dtype=np.int64)]
    for block in BlockReader(path):
        lines = np.unique(scanner.scan(block).lines)
        found.append(
            np.column_stack([block.first_line + lines, block.byte_offset + block.starts[lines]])
        )
    return np.concatenate(found)


def read_file(path: Path) -> int:
    """Number of lines, by reading and indexing alone."""
    reader = BlockReader(path)
    for _ in reader:
        pass
    return reader.n_lines


def rg_command(path: Path, literal_file: Path) -> list[str]:
    flags = ["-n", "-b", "-a", "-F", "-j1", "--no-config"]
    return ["rg", *flags, "-f", str(literal_file), str(path)]


def rg_lines(output: Path) -> Found:
    """What rg found, from its `line:offset:text`."""
    fields = (line.split(b":", 2) for line in output.read_bytes().split(b"\n")[:-1])
    pairs = [(int(f[0]) - 1, int(f[1])) for f in fields]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def measure(path: Path, wanted: list[str], folder: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, by what ran."""
    scanner = Scanner([Pattern(i, text.encode()) for i, text in enumerate(wanted)])
    literal_file, output = folder / "literals", folder / "rg.out"
    literal_file.write_text("".join(f"{text}\n" for text in wanted))
    has_rg = shutil.which("rg") is not None
    seconds: dict[str, list[float]] = {"read + index": [], "read + index + scan": []}
    scan_file(path, scanner)  # fills the page cache
    for _ in range(rounds):
        begin = time.perf_counter()
        read_file(path)
        seconds["read + index"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        ours = scan_file(path, scanner)
        seconds["read + index + scan"].append(time.perf_counter() - begin)
        if has_rg:
            begin = time.perf_counter()
            with output.open("wb") as out:
                subprocess.run(rg_command(path, literal_file), stdout=out, check=True)
            seconds.setdefault("rg", []).append(time.perf_counter() - begin)
            if not np.array_equal(ours, rg_lines(output)):
                sys.exit("rg and the scanner found different lines")
    print(f"{path.stat().st_size / 1e6:.0f} MB, {len(wanted)} literals, {len(ours)} lines hit")
    if not has_rg:
        print("rg is not installed (apt-get install ripgrep): no ratios")
    return seconds


def print_table(seconds: dict[str, list[float]], n_bytes: int) -> None:
    """Median and best speed, and the median over rounds of rg's time over ours."""
    print(f"{'what':<22}{'median MB/s':>12}{'best MB/s':>11}{'x rg':>7}")
    for name, times in seconds.items():
        median, best = (n_bytes / 1e6 / t for t in (statistics.median(times), min(times)))
        ratio = ""
        if "rg" in seconds:
            pairs = zip(seconds["rg"], times, strict=True)
            ratio = f"{statistics.median(rg / own for rg, own in pairs):.2f}"
        print(f"{name:<22}{median:>12.0f}{best:>11.0f}{ratio:>7}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--kind", choices=sorted(kinds()), default="failures")
    parser.add_argument("--literals", type=int, default=N_LITERALS)
    parser.add_argument("--every", type=int, default=2000, help="lines per hit (failures only)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the log is written; default tmpfs")
    args = parser.parse_args()
    tmpfs = Path("/dev/shm")  # noqa: S108 - rg must write to memory, not to a disk
    parent = args.folder or (tmpfs if tmpfs.is_dir() else None)
    with tempfile.TemporaryDirectory(dir=parent) as name:
        path = Path(name) / "log"
        write(path, int(args.megabytes * 1e6), kinds(args.seed, args.every)[args.kind]())
        seconds = measure(path, literals(args.literals), Path(name), args.rounds)
        print_table(seconds, path.stat().st_size)


if __name__ == "__main__":
    main()
