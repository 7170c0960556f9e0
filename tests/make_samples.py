"""Write data/samples: two runs on a made-up cluster, told by four families of logs.

    python -m tests.make_samples            write the logs and the expected answer
    python -m tests.make_samples --check    fail where the committed files differ

All lines are our own, in the form of the programs that they imitate. The story is laid out second
by second below; `expected.json` is plain arithmetic over it and never asks the product. Steps have
no jitter: the reference step time is exact. The stamp of a Megatron line is the end of its step.

Run `pretrain-7b` (Megatron, 4 nodes): a GPU of node003 falls off the bus, the job is requeued and
loses 22 steps; a collective hangs until the watchdog ends the job, 12 steps are lost and somebody
submits it again; a slow window of 40 steps at half speed; a clean end.
Run `finetune-1b` (torchtitan, 1 node): one attempt, an asynchronous and a last blocking save.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
CLUSTER = "harbor"
DAY = datetime(2026, 2, 3, tzinfo=UTC)
STEP_S = 10
TOTAL = 450
SAVE_S, EVALUATION_S, WARM_UP_S = 20, 30, 15


def at(clock: str) -> datetime:
    """An instant of the day, `HH:MM:SS`."""
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return DAY + timedelta(hours=hours, minutes=minutes, seconds=seconds)


def iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


def micro(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"


@dataclass
class Story:
    """Lines of one log, and the clock of the process that writes them."""

    now: datetime
    lines: list[str] = field(default_factory=list)

    def write(self, *lines: str) -> None:
        self.lines += lines

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def megatron_start(story: Story, resume: int | None) -> None:
    """From the first line of the process to the first step: 120 s cold, 110 s with a checkpoint."""
    story.write(
        "using world size: 32, data-parallel size: 8, tensor-model-parallel size: 4",
        "------------------------ arguments ------------------------",
        "  global_batch_size ............................... 1024",
        "  save_interval ................................... 50",
        "-------------------- end of arguments ---------------------",
    )
    story.wait(70)
    story.write(f"[after megatron is initialized] datetime: {micro(story.now)} ")
    story.wait(30)
    if resume is None:
        story.write(
            "WARNING: could not find the metadata file /ckpt/pretrain-7b/latest_checkpointed_"
            "iteration.txt",
            "    will not load any checkpoints and will start from random",
        )
    else:
        story.write(
            f" loading distributed checkpoint from /ckpt/pretrain-7b at iteration {resume}",
            f"  successfully loaded checkpoint from /ckpt/pretrain-7b [ t 1/4, p 1/1 ] "
            f"at iteration {resume}",
        )
    model = "[after model, optimizer, and learning rate scheduler are built]"
    story.write(f"{model} datetime: {micro(story.now)} ")
    story.wait(20 if resume is None else 10)
    story.write(
        f"[after dataloaders are built] datetime: {micro(story.now)} ",
        "done with setup ...",
        "training ...",
        f"[before the start of training step] datetime: {micro(story.now)} ",
    )


def megatron_steps(story: Story, first: int, last: int, slow: range = range(0)) -> None:
    """Steps of 10 s; the first of a process takes 25 s; evaluation at every 100th, save at 50th."""
    for step in range(first, last + 1):
        spent = STEP_S * (2 if step in slow else 1) + (WARM_UP_S if step == first else 0)
        story.wait(spent)
        loss = 2.2 + 8.8 * 0.985**step
        story.write(
            f" [{micro(story.now)}] iteration {step:8d}/{TOTAL:8d} | consumed samples: "
            f"{step * 1024:12d} | elapsed time per iteration (ms): {spent * 1000:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): {4120 / spent:.1f} | learning rate: "
            f"{3e-4:.6E} | global batch size: {1024:5d} | lm loss: {loss:.6E} | "
            f"loss scale: 1.0 | grad norm: {0.3 + loss / 20:.3f} | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        if step % 100 == 0:
            story.wait(EVALUATION_S)
            rule = "-" * 74
            story.write(
                rule,
                f" validation loss at iteration {step} on validation set | lm loss value: "
                f"{loss + 0.05:.6E} | lm loss PPL: {15.0:.6E} | ",
                rule,
            )
        if step % 50 == 0:
            story.write(
                f"[{micro(story.now)}] saving checkpoint at iteration {step:7d} to "
                "/ckpt/pretrain-7b in torch_dist format"
            )
            story.wait(SAVE_S)
            story.write(
                f"  [{micro(story.now)}] successfully saved checkpoint from iteration {step:7d} "
                "to /ckpt/pretrain-7b [ t 1/4, p 1/1 ]"
            )


def node_failure(story: Story) -> None:
    """What survivors and Slurm print when node003 is gone; the end comes 305 s later."""
    lost = story.now + timedelta(seconds=41)
    for rank, peer in ((4, 20), (12, 21), (28, 22)):
        node = f"node{rank // 8 + 1:03d}"
        story.write(
            f"[{lost:%Y-%m-%d %H:%M:%S}] {node}:{4100 + rank}:{4300 + rank} [{rank % 8}] "
            "transport/net_ib.cc:2271 NCCL WARN NET/IB: Got completion from peer "
            f"10.8.0.3<{40000 + peer}> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
        )
    story.wait(305)
    story.write(
        "srun: error: Node failure on node003",
        f"[{iso(story.now)}.112] error: *** STEP 48211.0 ON node001 CANCELLED AT "
        f"{iso(story.now)} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        "srun: Job step aborted: Waiting up to 62 seconds for job step to finish.",
    )


def hang(story: Story) -> None:
    """A collective that never ends: the job ends 655 s after the last step.

    Watchdogs of four of the 32 ranks speak after 600 s; the agent of node001 sees rank 0 abort.
    """
    spoken = story.now + timedelta(seconds=602)
    for rank in (0, 9, 17, 30):
        story.write(
            f"[rank{rank}]:[E203 {spoken:%H:%M:%S}.{318211734 + rank} ProcessGroupNCCL.cpp:655] "
            f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=98231, "
            "OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for "
            f"{600031 + rank} milliseconds before timing out."
        )
    killed = spoken + timedelta(seconds=34)
    story.write(
        f"W0203 {killed:%H:%M:%S}.102000 40122 torch/distributed/elastic/multiprocessing/"
        "api.py:1028] Sending process 40172 closing signal SIGTERM",
        f"E0203 {killed:%H:%M:%S}.204000 40122 torch/distributed/elastic/multiprocessing/"
        "api.py:1002] failed (exitcode: -6) local_rank: 0 (pid: 40171) of binary: "
        "/opt/train/bin/python3",
    )
    story.wait(655)
    story.write("srun: error: node001: task 0: Exited with exit code 1")


def pretrain() -> dict[str, str]:
    """The output files of the jobs 48211 (two attempts, appended) and 48260."""
    first = Story(at("08:05:00"))
    megatron_start(first, None)
    megatron_steps(first, 1, 172)
    node_failure(first)
    assert first.now == at("08:42:30"), first.now
    second = Story(at("08:46:00"))
    megatron_start(second, 150)
    megatron_steps(second, 151, 312)
    hang(second)
    assert second.now == at("09:28:00"), second.now
    third = Story(at("09:52:30"))
    megatron_start(third, 300)
    megatron_steps(third, 301, TOTAL, slow=range(341, 381))
    third.wait(1)
    third.write(f"[after training is done] datetime: {micro(third.now)} ")
    assert third.now == at("10:27:46"), third.now
    return {
        "logs/slurm-48211.out": "\n".join([*first.lines, *second.lines]) + "\n",
        "logs/slurm-48260.out": "\n".join(third.lines) + "\n",
    }


def titan(story: Story, text: str) -> None:
    stamp = f"{story.now:%Y-%m-%d %H:%M:%S},{story.now.microsecond // 1000:03d}"
    story.write(f"[rank0]:[titan] {stamp} - root - INFO - {text}")


def finetune() -> dict[str, str]:
    """The output of job 48230: 200 steps of 3 s, logged at step 1 and at every tenth."""
    story = Story(at("09:00:30"))
    titan(story, "Starting job: finetune 1b")
    story.wait(35)
    titan(story, "Building llama3 1B")
    titan(story, "No checkpoint was provided, this is a fresh start.")
    story.wait(15)
    titan(story, "Training starts at step 1")
    story.wait(10)
    for step in range(1, 201):
        story.wait(3)
        if step == 1 or step % 10 == 0:
            titan(
                story,
                f"step: {step:2}  loss: {4.1 - step / 100:7.4f}  grad_norm: {0.9:7.4f}  "
                "memory: 41.20GiB(52.10%)  tps: 10,922  tflops: 412.30  mfu: 41.69%",
            )
        if step == 100:
            titan(story, "Staging the checkpoint.")
            story.wait(2)
            titan(story, "Finished staging the checkpoint in 2.00 seconds.")
        if step == 106:
            story.wait(2)
            titan(story, "Finish saving the checkpoint in the background process in 20.00 seconds.")
            story.wait(-2)
    titan(story, "Saving a full checkpoint at last step, step 200.")
    titan(story, "Saving the checkpoint.")
    story.wait(8)
    titan(story, "Finished saving the checkpoint in 8.00 seconds.")
    story.wait(2)
    titan(story, "Training completed")
    titan(story, "Process group destroyed")
    assert story.now == at("09:11:42"), story.now
    return {"logs/slurm-48230.out": "\n".join(story.lines) + "\n"}


def kernel() -> dict[str, str]:
    """Kernel logs of two nodes: the GPU that fell off the bus, and everyday noise."""
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    fallen = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    action = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    node003 = [
        ("08:01:12.004211", "EXT4-fs (nvme0n1p2): re-mounted. Quota mode: none."),
        ("08:37:29.104233", f"NVRM: GPU at PCI:0000:9b:00: {uuid}"),
        ("08:37:29.104251", f"NVRM: Xid (PCI:0000:9b:00): {fallen}"),
        ("08:37:29.104266", f"NVRM: Xid (PCI:0000:9b:00): {action}"),
        ("08:37:31.220004", "nvidia-persistenced: device went away"),
    ]
    node001 = [
        ("08:00:03.118876", "mlx5_core 0000:41:00.0: ACCESS_REG(0x805) op_mod(0x0) failed"),
        ("09:15:00.550120", "perf: interrupt took too long (2510 > 2500), lowering rate"),
    ]
    return {
        f"logs/kernel/{node}.log": "".join(
            f"2026-02-03T{clock}+00:00 {node} kernel: {text}\n" for clock, text in lines
        )
        for node, lines in (("node001", node001), ("node003", node003))
    }


COLUMNS = (
    "Cluster JobID JobIDRaw Restarts User Account Partition Submit Eligible Start End ElapsedRaw "
    "Suspended TimelimitRaw State Reason ExitCode FailedNode NNodes AllocTRES NodeList Flags "
    "StdOut WorkDir JobName Comment"
).split()


def job_rows(
    job: int, restarts: int, name: str, clocks: tuple[str, str, str, str], state: str, code: str,
    nodes: tuple[int, str], failed: str = "",
) -> list[dict[str, object]]:  # fmt: skip
    """The job's row and those of its batch, extern and first step."""
    submit, eligible, start, end = (at(c) for c in clocks)
    n_nodes, node_list = nodes
    base: dict[str, object] = {
        "Cluster": CLUSTER, "JobID": job, "JobIDRaw": job, "Restarts": restarts, "User": "demo",
        "Account": "research", "Partition": "gpu", "Submit": iso(submit),
        "Eligible": iso(eligible), "Start": iso(start), "End": iso(end),
        "ElapsedRaw": int((end - start).total_seconds()), "Suspended": "00:00:00",
        "TimelimitRaw": 1440, "State": state, "Reason": "None", "ExitCode": code,
        "FailedNode": failed, "NNodes": n_nodes, "NodeList": node_list,
        "AllocTRES": f"billing={n_nodes * 8},cpu={n_nodes * 96},gres/gpu={n_nodes * 8},"
                     f"node={n_nodes}",
        "Flags": "SchedMain,StartRecieved",  # spelled as Slurm spells it
        "StdOut": f"/home/demo/runs/slurm-{job}.out", "WorkDir": "/home/demo/runs",
        "JobName": name, "Comment": "",
    }  # fmt: skip
    rows = [base]
    for step, step_state, step_code in (
        ("batch", "CANCELLED" if state == "NODE_FAIL" else state, "0:15" if failed else code),
        ("extern", "COMPLETED", "0:0"),
        ("0", "CANCELLED" if state == "NODE_FAIL" else state, "0:9" if failed else code),
    ):
        rows.append(
            {**base, "JobID": f"{job}.{step}", "JobIDRaw": f"{job}.{step}", "User": "",
             "State": step_state, "ExitCode": step_code, "TimelimitRaw": "", "StdOut": "",
             "WorkDir": "", "JobName": "train" if step == "0" else step, "FailedNode": ""}
        )  # fmt: skip
    return rows


def accounting() -> dict[str, str]:
    four, one = (4, "node[001-004]"), (1, "node005")
    rows = [
        *job_rows(48211, 0, "pretrain-7b", ("08:00:00", "08:00:00", "08:05:00", "08:42:30"),
                  "NODE_FAIL", "1:0", four, "node003"),
        *job_rows(48211, 1, "pretrain-7b", ("08:42:35", "08:44:36", "08:46:00", "09:28:00"),
                  "FAILED", "1:0", four),
        *job_rows(48230, 0, "finetune-1b", ("09:00:00", "09:00:00", "09:00:20", "09:11:50"),
                  "COMPLETED", "0:0", one),
        *job_rows(48260, 0, "pretrain-7b", ("09:50:00", "09:50:00", "09:52:30", "10:28:05"),
                  "COMPLETED", "0:0", four),
    ]  # fmt: skip
    lines = ["|".join(COLUMNS), *("|".join(str(row[c]) for c in COLUMNS) for row in rows)]
    return {"logs/sacct.txt": "\n".join(lines) + "\n"}


def expected() -> dict[str, object]:
    """The answer, from the story alone."""
    pretrain_s = {
        "productive": TOTAL * STEP_S + 4 * EVALUATION_S,
        "slow": 40 * STEP_S,
        "lost_recompute": (22 + 12) * STEP_S,
        "checkpoint": 9 * SAVE_S,
        # the two ways back: detection, requeue or operator, wait, start-up, warm-up
        "recovery": (305 + 5 + 205 + 110 + WARM_UP_S) + (655 + 1320 + 150 + 110 + WARM_UP_S),
        "startup": 120 + WARM_UP_S + 20,
        "planned": 0,
        "uncommitted": 0,
        "unexplained": 0,
    }
    finetune_s = {
        "productive": 200 * 3, "slow": 0, "lost_recompute": 0, "checkpoint": 2 + 8, "recovery": 0,
        "startup": 60 + 10 + 10, "planned": 0, "uncommitted": 0, "unexplained": 0,
    }  # fmt: skip
    runs = {}
    for name, seconds, wall_s in (
        ("pretrain-7b", pretrain_s, (at("10:28:05") - at("08:05:00")).total_seconds()),
        ("finetune-1b", finetune_s, (at("09:11:50") - at("09:00:20")).total_seconds()),
    ):
        assert sum(seconds.values()) == wall_s, (name, sum(seconds.values()), wall_s)
        runs[name] = {
            "wall_s": wall_s,
            "segments_s": seconds,
            "tor_observed": seconds["productive"] / wall_s,
        }
    runs["pretrain-7b"] |= {
        "queue_s": 300, "n_attempts": 3, "steps_kept": TOTAL, "steps_lost": 34,
        "reference_step_s": STEP_S,
        "incidents": [
            {"type": "gpu.bus", "nodes": ["node003"], "gpus": ["0000:9b:00"], "lost_steps": 22,
             "lost_s": 220, "recovery_s": 640, "confidence": "confirmed"},
            {"type": "unattributed", "mode": "hang", "lost_steps": 12, "lost_s": 120,
             "recovery_s": 2250, "confidence": "unattributed"},
            {"type": "unattributed", "mode": "fail_slow", "lost_steps": 0, "lost_s": 0,
             "recovery_s": 0, "slow_s": 40 * STEP_S, "confidence": "unattributed"},
        ],
    }  # fmt: skip
    runs["finetune-1b"] |= {
        "queue_s": 20, "n_attempts": 1, "steps_kept": 200, "steps_lost": 0,
        "reference_step_s": 3, "incidents": [],
    }  # fmt: skip
    return {"cluster": CLUSTER, "runs": runs}


def files() -> dict[str, str]:
    """Every sample file by its path below data/samples."""
    settings = (
        "# Settings of the demo; see docs/configuration.md\n"
        f'cluster = "{CLUSTER}"\ntimezone = "UTC"\n'
    )
    return {
        **pretrain(),
        **finetune(),
        **kernel(),
        **accounting(),
        "wallsplit.toml": settings,
        "expected.json": json.dumps(expected(), indent=1) + "\n",
    }


def main() -> int:
    """Write the samples, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wrong = []
    for name, text in files().items():
        path = SAMPLES / name
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(name)
    for name in wrong:
        print(f"{name} differs from what tests/make_samples.py writes", file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
