"""Every real training log: which dialect is chosen, what the others claim, what the log tells.

The third-party files are not part of the project; `WALLSPLIT_REAL_LOGS` names their folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb
import pytest

from parsers.dialect_files import load_dialects
from pipeline import database, timeline
from pipeline.ingest import ingest
from tests.histories import one

# File below training/: the dialect whose steps count; None for files without step lines.
CHOSEN = {
    "bigscience_meg_gpt2_perf_n16-1999618.out": "megatron",
    "bigscience_meg_ds_3d_gpt2_perf_n16-ds-on.out": "megatron",
    "bigscience_tr11-176B-ml_chronicles.md": "megatron",
    "bigscience_hf_ds_gpt2_base_n16-1832552.out": "hf",
    "events_0.log": "dlrover",
    "maxtext_docs_steps.log": "maxtext",
    "nanotron_pr23_2024-01.log": "nanotron",
    "nvrx_logger_example.log": None,
    "torchft_issue329_quorum.log": None,
    "torchtitan_pr3393_v0.2.x_save_last_step.log": "torchtitan",
    "v4.0_NVIDIA_eos_n64_ngc24.04_nemo_gpt3_result_0.txt": "mlperf",
    "v4.0_Google_cloud-tpu-v5p-1024-maxtext_gpt3_result_0.txt": "mlperf",
}


@pytest.fixture(scope="module")
def con(real_logs, tmp_path_factory) -> duckdb.DuckDBPyConnection:
    """A lake of all real training logs, each a file of its own."""
    lake = tmp_path_factory.mktemp("lake")
    ingest([str(real_logs / "training")], lake)
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    return database.connect(lake)


def ask(con: duckdb.DuckDBPyConnection, name: str, question: str) -> list[tuple[object, ...]]:
    """Rows of a question about one file, in which `mine` stands for its id."""
    con.execute(
        "set variable mine = (select file_id from file where contains(path, $name))", {"name": name}
    )
    return con.sql(question.replace("mine", "getvariable('mine')")).fetchall()


def test_every_file_speaks_its_own_dialect(con):
    found = con.sql("select parse_filename(path), dialect from file order by 1").fetchall()
    assert dict(found) == CHOSEN
    assert one(con, "select sum(n_rejects) from file") == (0,)


@pytest.mark.parametrize("name", [name for name, dialect in CHOSEN.items() if dialect])
def test_other_dialects_claim_no_step_lines(con, name):
    lines = ask(
        con, name,
        "select dialect, count(distinct line) from train_event "
        "where kind = 'step' and file_id = mine group by 1",
    )  # fmt: skip
    n_lines = dict(lines)
    n_own = n_lines.pop(CHOSEN[name])
    assert sum(n_lines.values()) < 0.01 * n_own


@pytest.mark.parametrize("name", [n for n, dialect in CHOSEN.items() if dialect])
def test_literals_of_other_dialects_are_rare(real_logs, name):
    (path,) = (real_logs / "training").rglob(name)
    own: set[bytes] = set()
    others: set[bytes] = set()
    for dialect in load_dialects():
        mine = own if dialect.name in (CHOSEN[name], "deepspeed") else others
        mine |= {x.encode() for rule in dialect.rules for x in rule.literals}
    lines = path.read_bytes().split(b"\n")
    n_hit = sum(any(x in line for x in others - own) for line in lines)
    assert n_hit <= 0.005 * len(lines) + 1


def test_dlrover_spans(con):
    log = "events_0.log"
    steps = "from raw_train_event where kind = 'step' and file_id = mine"
    assert ask(con, log, f"select step_to, make_timestamp(stamp_us) {steps} order by 1") == [
        (177_019, datetime(2025, 4, 21, 23, 53, 35, 596206)),  # noqa: DTZ001 - as printed
        (177_020, datetime(2025, 4, 21, 23, 54, 19, 126514)),  # noqa: DTZ001
        (177_021, datetime(2025, 4, 21, 23, 54, 35, 159122)),  # noqa: DTZ001
    ]
    # the sample count falls inside the first span: a restart hides in it
    assert ask(con, log, f"select min_by(consumed_samples, step_to) {steps}") == [(15_456,)]
    assert ask(
        con, log, "select step_ms from train_event where kind = 'metric' and file_id = mine"
    ) == [(pytest.approx(1_374_427.3, abs=0.1),)]
    assert ask(
        con, log,
        "select step, epoch(durable_at - begin_at) from checkpoint where file_id = mine order by 1",
    ) == [
        (177_215, pytest.approx(91.6, abs=0.1)), (177_413, pytest.approx(91.0, abs=0.1)),
    ]  # fmt: skip


def test_maxtext_steps_without_any_time(con):
    steps = ask(
        con, "maxtext_docs_steps.log",
        "select step_to, step_ms, loss, tps from train_event "
        "where kind = 'step' and file_id = mine order by 1",
    )  # fmt: skip
    assert [s[:2] for s in steps] == [(1, 44_923.0), (2, 319.0), (3, 5_658.0), (4, 5_402.0)]
    assert steps[3][2:] == (11.379, 9_098.189)


def test_nanotron_month_first_dates_and_human_numbers(con):
    steps = ask(
        con, "nanotron_pr23_2024-01.log",
        "select step_to, total_steps, step_ms, tokens, make_timestamp(stamp_us), node "
        "from raw_train_event where kind = 'step' and file_id = mine order by 1",
    )  # fmt: skip
    at, node = datetime(2024, 1, 17, 14, 7, 46), "ip-10-0-160-225"  # noqa: DTZ001 - as printed
    assert steps == [
        (991, 1000, 258.0, 634_000, at, node),
        (992, 1000, 259.0, 635_000, at, node),
    ]


def test_three_ranks_tell_of_one_change_of_the_quorum(con):
    assert ask(
        con, "torchft_issue329_quorum.log",
        "select kind, detail, step_to from train_event where file_id = mine",
    ) == [("membership", "quorum_change", 0)]  # fmt: skip


@dataclass(frozen=True)
class MlperfResult:
    """What the collection counted in one result file."""

    name: str
    n_starts: int
    init_s: float
    run_s: float
    evaluation_s: float
    samples: int
    loss: float


NVIDIA = MlperfResult("v4.0_NVIDIA", 512, 290.622, 3_147.895, 268.873, 1_245_708_288, 2.68884)
# no eval_start and eval_stop: evaluation is inside its blocks
GOOGLE = MlperfResult("v4.0_Google", 1, 119.051, 6_887.633, 0.0, 1_207_959_552, 2.68945)


@pytest.mark.parametrize("result", [NVIDIA, GOOGLE], ids=lambda r: r.name)
def test_mlperf_results(con, result):
    (found,) = ask(
        con, result.name,
        """
        select count(*) filter (kind = 'attempt_start'),
            epoch(max(occurred_at) filter (kind = 'shutdown' and detail = 'completed')
                - min(occurred_at) filter (kind = 'train_start')),
            count(*) filter (kind = 'evaluation' and loss is not null),
            max(step_to) filter (kind = 'step'),
            max_by(loss, line) filter (kind = 'evaluation' and loss is not null)
        from train_event where file_id = mine
        """,
    )  # fmt: skip
    assert found == (
        result.n_starts, pytest.approx(result.run_s), 24, result.samples,
        pytest.approx(result.loss, abs=1e-5),
    )  # fmt: skip
    assert ask(
        con, result.name,
        "select steps_kept, end_state from run "
        "where run_id in (select run_id from launch where file_id = mine)",
    ) == [(result.samples, "completed")]  # fmt: skip
    seconds = dict(
        ask(
            con, result.name,
            "select phase, sum(duration_s) from segment "
            "where run_id in (select run_id from launch where file_id = mine) group by 1",
        )
    )  # fmt: skip
    assert seconds.get("evaluation", 0) == pytest.approx(result.evaluation_s, abs=0.01)
    assert sum(seconds.values()) == pytest.approx(result.init_s + result.run_s, abs=0.01)
