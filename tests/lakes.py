"""Small logs in real dialects, and what a lake says about them."""

from __future__ import annotations

from pathlib import Path

from parsers.tables import FACT_TABLES
from pipeline import database, lake
from pipeline.ingest import IngestSummary, ingest

Rows = dict[str, list[tuple[object, ...]]]

BANNER = "----------- arguments -----------\n"


def step_line(step: int, minute: int = 0, loss: float = 2.5) -> str:
    """One Megatron-LM line; steps are a second apart."""
    return (
        f" [2026-02-01 00:{minute:02d}:{step % 60:02d}.000000] iteration {step:8d}/    1000 |"
        f" consumed samples: {step * 64:12d} | elapsed time per iteration (ms): 1000.0 |"
        f" learning rate: 3.000000E-04 | global batch size:    64 | lm loss: {loss:.6E} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def train_log(first: int = 1, last: int = 40, banner: str = BANNER) -> str:
    """A launch with steps `first` to `last`, chatter between them and a fault at the end."""
    lines = [banner]
    for step in range(first, last + 1):
        lines.append(step_line(step))
        if step % 3 == 0:
            lines.append(f"rank {step % 8}: prefetched a shard of {step} samples\n")
    lines.append("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    return "".join(lines)


def sacct(n_jobs: int = 20) -> str:
    """Accounting of finished jobs, one of them with a newline in its comment."""
    lines = ["JobID|JobName|Comment|State|Submit|Start|End|ExitCode|NNodes\n"]
    for job in range(100, 100 + n_jobs):
        comment = "two\nlines" if job == 105 else "none"
        lines.append(
            f"{job}|pretrain|{comment}|COMPLETED|2026-02-01T00:00:00|2026-02-01T00:01:00|"
            "2026-02-01T02:00:00|0:0|2\n"
        )
    return "".join(lines)


def read(*paths: Path, into: Path, **options: object) -> IngestSummary:
    """Ingest with defaults."""
    return ingest([str(p) for p in paths], into, **options)  # type: ignore[arg-type]


def living(lake_dir: Path, *, ids: bool = True) -> Rows:
    """All living facts by table, in a fixed order; without `ids` file names are left out."""
    con = database.new_connection()
    database.register_facts(con, lake_dir)
    found: Rows = {}
    for table in FACT_TABLES:
        names = [c.name for c in table.columns if ids or c.name != "file_id"]
        rows = con.table(f"raw_{table.name}").to_arrow_table().select(names).to_pylist()
        if rows:
            found[table.name] = sorted((tuple(r.values()) for r in rows), key=repr)
    return found


def ledger(lake_dir: Path) -> list[dict[str, object]]:
    """All ledger rows, oldest batch first."""
    return lake.read_ledger(lake_dir)[1].to_pylist()


def steps(lake_dir: Path) -> list[int]:
    """The living step numbers, ascending, repeated ones included."""
    con = database.new_connection()
    database.register_facts(con, lake_dir)
    rows = con.sql("select step_to from raw_train_event where kind = 'step' order by 1").fetchall()
    return [row[0] for row in rows]
