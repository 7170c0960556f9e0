"""Whole logs in the forms of several frameworks, with answers worked out by hand.

Each log is one run of steps that all take equally long. Where a log starts again, it repeats steps
behind its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb
import pytest

from pipeline import database, timeline
from pipeline.ingest import ingest
from tests.histories import one

BEGIN = datetime(2026, 2, 1)  # noqa: DTZ001 - logs print wall clock without a zone


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat(" ", "milliseconds")


def nemo() -> Iterator[str]:
    """40 steps of 5 s that state it; a save of 25 s behind the 20th, which only its end tells."""
    yield f"[NeMo I {at(0)[:19]} nemo_logging:393] Experiments will be logged\n"
    for step in range(40):
        yield (
            f"Training epoch 0, iteration {step}/39 | lr: 1e-05 | global_batch_size: 128 | "
            f"global_step: {step} | reduced_train_loss: 9.1 | train_step_timing in s: 5.0 | "
            f"consumed_samples: {128 * (step + 1)}\n"
        )
        if step == 19:
            yield (
                f"[NeMo I {at(125)[:19]} nemo_logging:393] Global Checkpoint Save : Rank: 0 : "
                "Iteration: 20 : Start time: 1769904100.0s : Save duration: 25.0s\n"
            )
    yield "`Trainer.fit` stopped: `max_steps=40` reached.\n"


def lightning() -> Iterator[str]:
    """Two epochs of 30 steps of 4 s; the bar's number and clock begin anew."""
    for epoch in range(2):
        for step in range(1, 31):
            spent = timedelta(seconds=4 * step)
            yield (
                f"Epoch {epoch}: {100 * step // 30:3d}%|#   | {step}/30 [{str(spent)[2:]}<00:10, "
                f" 4.00s/it, v_num=0]\r"
            )
        yield "\n"
    yield "`Trainer.fit` stopped: `max_epochs=2` reached.\n"


def deepspeed() -> Iterator[str]:
    """200 steps of 2 s, printed every tenth; nothing else prints steps.

    `step=0` is printed before a checkpoint is loaded, too: nothing says where the first ten begin.
    """
    for step in range(0, 201, 10):
        stamp = at(2 * step).replace(".", ",")
        yield (
            f"[{stamp}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, "
            "lr=[1e-05], mom=[(0.9, 0.95)]\n"
        )


def hf_beside_deepspeed() -> Iterator[str]:
    """60 steps of 3 s on a bar; DeepSpeed's stamped counter every 50 steps must not replace it."""
    yield f"[INFO|trainer.py:1884] {at(0).replace('.', ',')} >> ***** Running training *****\n"
    for step in range(1, 61):
        spent = str(timedelta(seconds=3 * step))[2:]
        yield f"\r{100 * step // 60:3d}%|#   | {step}/60 [{spent}<01:00,  3.00s/it]"
        if step == 50:
            yield (
                f"[{at(150).replace('.', ',')}] [INFO] [logging.py:96:log_dist] [Rank 0] "
                "step=50, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]\n"
            )
    yield "\nTraining completed. Do not forget to share your model =)\n"


def olmo() -> Iterator[str]:
    """50 steps of 6 s, a save of 12 s at 30; then from 30 on again to 60."""
    form = "[{}] INFO     [olmo_core.train.{}:62, rank=0] {}\n"
    t = 0.0
    for first, last in ((1, 50), (31, 60)):
        yield form.format(at(t)[:19], "trainer", "Starting forward/backward dry-run batch...")
        if first > 1:
            yield form.format(at(t)[:19], "trainer", "Will resume training from step 30, epoch 1")
        t += 10
        yield form.format(at(t)[:19], "trainer", "Dry-run complete")
        for step in range(first, last + 1):
            t += 6
            yield form.format(at(t)[:19], "callbacks", f"[step={step}/60,epoch=1]")
            if step == 30:
                text = "Saving checkpoint for step 30 to '/ckpt/step30'..."
                yield form.format(at(t)[:19], "callbacks", text)
                t += 12
                yield form.format(at(t)[:19], "callbacks", "Checkpoint saved")
        t += 60
    yield form.format(at(t - 60)[:19], "trainer", "Training complete")


def maxtext() -> Iterator[str]:
    """Steps 0 to 29 of 8 s; restored from 19, so that 20 are complete; then to 39."""
    for first, last in ((0, 29), (20, 39)):
        if first:
            yield "restoring from this run's directory step 19\n"
        else:
            yield "No existing checkpoints found, not restoring checkpoint.\n"
        for step in range(first, last + 1):
            yield (
                f"completed step: {step}, seconds: 8.000, TFLOP/s/device: 140.0, "
                "Tokens/s/device: 9000.0, total_weights: 196608, loss: 11.3\n"
            )
            if step == 19:
                yield "Saved a checkpoint at step 19.\n"


def metaseq() -> Iterator[str]:
    """40 updates of 7 s, one of them discarded."""
    for step in range(1, 41):
        stamp = at(7 * step)[:19]
        if step == 10:
            yield (
                f"{stamp} | INFO | metaseq.optim | gradient overflow detected, ignoring gradient, "
                "setting loss scale to: 64.0\n"
            )
        yield (
            f'{stamp} | INFO | train_inner | {{"epoch": 1, "loss": "8.1", "num_updates": "{step}", '
            f'"gnorm": "1.2", "train_wall": "6.9", "wall": "{7 * step}"}}\n'
        )


def verl() -> Iterator[str]:
    """20 steps of 80 s, carried by a container runtime that stamps; step 0 is a validation."""
    for step in range(21):
        stamp = at(80 * step).replace(" ", "T")
        timing = " - timing_s/step:80.0" if step else ""
        yield (
            f"{stamp}Z stdout F (TaskRunner pid=7) step:{step} - actor/pg_loss:0.01{timing} - x:1\n"
        )


def composer() -> Iterator[str]:
    """Two epochs of 20 batches of 9 s: the marker begins anew, time/batch goes on from 0."""
    for batch in range(40):
        stamp = at(9 * (batch + 1)).replace(" ", "T")
        epoch, in_epoch = divmod(batch, 20)
        for line in (
            f"[epoch={epoch + 1}][batch={in_epoch + 1}/20]:",
            f"\t Train time/batch: {batch}",
            f"\t Train time/batch_in_epoch: {in_epoch}",
            "\t Train loss/train/total: 6.1",
        ):
            yield f"{stamp}Z stderr F {line}\n"


def nanotron() -> Iterator[str]:
    """30 steps of 11.5 s, whose dates lack the year; two pipeline ranks print each."""
    for step in range(1, 31):
        moment = BEGIN + timedelta(seconds=11.5 * step)
        for rank in (0, 7):
            yield (
                f"{moment:%m/%d %H:%M:%S} [INFO|DP=0|PP={rank}|TP=0|host{rank}]: "
                f"iteration: {step} / 400 | consumed_tokens: 12.6M | time_per_iteration_ms: 11.5K"
                " | lm_loss: 8.01\n"
            )


@dataclass(frozen=True)
class Answer:
    """What a log's run must come to."""

    dialect: str
    launches: int
    kept: int
    lost: int = 0
    skipped: int = 0
    step_s: float = 0.0
    saved_s: float | None = None  # seconds of checkpointing
    wall_s: float | None = None


CASES = {
    nemo: Answer("nemo", 1, 40, step_s=5, saved_s=25, wall_s=225),
    lightning: Answer("lightning", 1, 60, step_s=4, wall_s=240),
    deepspeed: Answer("deepspeed", 1, 191, step_s=2),
    hf_beside_deepspeed: Answer("hf", 1, 60, step_s=3, wall_s=180),
    olmo: Answer("olmo", 2, 60, lost=20, step_s=6, saved_s=12),
    maxtext: Answer("maxtext", 2, 40, lost=10, step_s=8, wall_s=400),
    metaseq: Answer("fairseq", 1, 39, skipped=1, step_s=7),
    verl: Answer("verl", 1, 20, step_s=80),
    composer: Answer("composer", 1, 40, step_s=9),
    nanotron: Answer("nanotron", 1, 30, step_s=11.5),
}


@pytest.fixture(scope="module")
def con(tmp_path_factory) -> duckdb.DuckDBPyConnection:
    """A lake in which each log is a run of its own."""
    logs, lake = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("lake")
    for log in CASES:
        folder = logs / log.__name__
        folder.mkdir()
        (folder / "train.log").write_text("".join(log()))
    ingest([str(logs)], lake)
    timeline.rebuild(lake)
    assert timeline.check(lake) == []
    return database.connect(lake)


@pytest.mark.parametrize(("log", "answer"), CASES.items(), ids=[f.__name__ for f in CASES])
def test_run_of_a_log(con, log, answer):
    con.execute(
        "set variable mine = (select file_id from file where contains(path, $name))",
        {"name": f"/{log.__name__}/"},
    )
    assert one(con, "select dialect, n_rejects from file where file_id = getvariable('mine')") == (
        answer.dialect, 0,
    )  # fmt: skip
    con.execute(
        "set variable run = (select any_value(run_id) from launch "
        "where file_id = getvariable('mine'))"
    )
    n_launches, kept, lost, skipped, step_s, wall_s = one(
        con,
        "select n_launches, steps_kept, steps_lost, steps_skipped, reference_step_s, wall_s "
        "from run where run_id = getvariable('run')",
    )
    assert (n_launches, kept, lost, skipped) == (
        answer.launches, answer.kept, answer.lost, answer.skipped,
    )  # fmt: skip
    assert step_s == pytest.approx(answer.step_s, rel=0.01)
    if answer.wall_s is not None:
        assert wall_s == pytest.approx(answer.wall_s, abs=answer.step_s)
    if answer.saved_s is not None:
        assert one(
            con,
            "select sum(duration_s) from segment "
            "where run_id = getvariable('run') and category = 'checkpoint'",
        ) == (pytest.approx(answer.saved_s, abs=1.0),)
