"""Columns of `sacct`, from text to the types of `accounting_row`, whole tables at a time.

Source: sacct(1), JOB ACCOUNTING FIELDS. Times are of the zone of the client that ran sacct unless
SLURM_TIME_FORMAT printed an offset.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from parsers.hostlist import HostlistError, expand
from parsers.tables import MAX_TEXT_BYTES, StampKind

KNOWN_COLUMNS = frozenset(
    """
    account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq
    avediskread avediskwrite avepages averss avevmsize blockid cluster comment constraints
    consumedenergy consumedenergyraw container cputime cputimeraw dbindex derivedexitcode elapsed
    elapsedraw eligible end exclusive exitcode extra failednode flags gid group jobid jobidraw
    jobname layout licenses maxdiskread maxdiskreadnode maxdiskreadtask maxdiskwrite
    maxdiskwritenode maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss maxrssnode
    maxrsstask maxvmsize maxvmsizenode maxvmsizetask mcslabel mincpu mincpunode mincputask ncpus
    nnodes nodelist ntasks originalsluid oversubscribe partition planned plannedcpu plannedcpuraw
    priority qos qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus
    reqgres reqmem reqnodes reqreservation reqtres reservation reservationid reserved resvcpu
    resvcpuraw restarts segmentsize sluid start state stderr stdin stdout submit submitline
    suspended systemcomment systemcpu timelimit timelimitraw totalcpu tresusageinave
    tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode
    tresusageinmintask tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode
    tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot
    uid user usercpu wckey wckeyid workdir
    """.split()
)

_NONE = ("", "Unknown", "None", "N/A", "INVALID", "(null)", "Partition_Limit", "UNLIMITED")
_NO_NODES = ("", "None assigned", "(null)", "(unknown)", "None", "Unknown")
_TIME = "%Y-%m-%dT%H:%M:%S"


def typed_rows(cells: pl.DataFrame) -> pl.DataFrame:
    """Typed columns of `accounting_row` for rows of text cells, and `problem` where one is unreadable.

    `cells` has one text column per sacct column, names case-folded. Absent columns give nulls.
    """

    def text(name: str) -> pl.Expr:
        if name not in cells.columns:
            return pl.lit(None, dtype=pl.String)
        value = pl.col(name).str.strip_chars()
        return pl.when(~value.is_in(_NONE)).then(value)

    def bounded(name: str) -> pl.Expr:
        return text(name).str.slice(0, MAX_TEXT_BYTES)

    rows = cells.select(
        **_ids(text),
        **{f"{name}_text": text(name) for name in ("submit", "eligible", "start", "end")},
        cluster=text("cluster"),
        sluid=text("sluid"),
        job_name=bounded("jobname"),
        user=pl.coalesce(text("user"), text("uid")),
        account=text("account"),
        partition=text("partition"),
        comment=bounded("comment"),
        submit_line=bounded("submitline"),
        work_dir=bounded("workdir"),
        stdout_path=bounded("stdout"),
        reason=text("reason"),
        elapsed_s=pl.coalesce(_int(text("elapsedraw")), _duration_s(text("elapsed"))),
        suspended_s=_duration_s(text("suspended")),
        time_limit_s=pl.coalesce(_int(text("timelimitraw")) * 60, _duration_s(text("timelimit"))),
        state=text("state"),
        state_base=text("state").str.extract(r"^([A-Za-z_]+)").str.to_uppercase(),
        exit_code=_int(text("exitcode").str.extract(r"^(\d+):\d+$")).cast(pl.Int32),
        exit_signal=_int(text("exitcode").str.extract(r"^\d+:(\d+)$")).cast(pl.Int32),
        exit_text=text("exitcode"),
        n_nodes=pl.coalesce(_int(text("nnodes")), _int(text("allocnodes"))).cast(pl.Int32),
        alloc_nodes=_int(text("allocnodes")),
        n_gpus=_gpus(pl.coalesce(text("alloctres"), text("allocgres"))),
        restart_count=_int(text("restarts")).cast(pl.Int32),
        node_text=pl.col("nodelist").str.strip_chars() if "nodelist" in cells.columns
        else pl.lit(None, dtype=pl.String),
        failed_text=text("failednode"),
    )  # fmt: skip
    rows = _with_times(rows)
    rows = _with_nodes(rows)
    return rows.with_columns(
        scheduler=pl.lit("slurm"),
        exit_trusted=pl.lit(value=True),
        never_started=_never_started(),
        problem=pl.concat_str(
            pl.when(pl.col("id_text").is_null()).then(pl.lit("no JobID")),
            pl.when(pl.col("exit_text").is_not_null() & pl.col("exit_code").is_null())
            .then(pl.format("ExitCode {} is not n:m", pl.col("exit_text").str.slice(0, 40))),
            *[_time_problem(name) for name in ("submit", "eligible", "start", "end")],
            separator="; ", ignore_nulls=True,
        ).replace("", None),
    ).drop("id_text", "exit_text", "alloc_nodes", "node_text", "failed_text",
           *[f"{n}_text" for n in ("submit", "eligible", "start", "end")])  # fmt: skip


def _ids(text: Callable[[str], pl.Expr]) -> dict[str, pl.Expr]:
    """Job, step, array and heterogeneous parts of JobID (see `log_build_step_id_str` in Slurm)."""
    job_id = pl.coalesce(text("jobid"), text("jobidraw"))
    shape = r"^(\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?)(?:\.(\w+)(?:\+\d+)?)?$"
    whole = job_id.str.extract(shape, 1)
    return {
        "id_text": whole,
        "job_id": whole,
        "step_id": job_id.str.extract(shape, 2),
        "native_id": pl.coalesce(text("jobidraw").str.extract(r"^(\d+)"), whole),
        "array_job_id": _int(whole.str.extract(r"^(\d+)_")),
        "array_task_id": _int(whole.str.extract(r"^\d+_(\d+)")),
        "array_throttle": _int(whole.str.extract(r"_\[[^\]]*%(\d+)\]")),
        "het_offset": _int(whole.str.extract(r"\+(\d+)$")).cast(pl.Int32),
    }


def _int(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.Int64, strict=False)


def _duration_s(value: pl.Expr) -> pl.Expr:
    """Whole seconds of `[D-]HH:MM:SS` or `MM:SS.mmm`."""
    days = _int(value.str.extract(r"^(\d+)-")).fill_null(0)
    clock = value.str.extract(r"^(?:\d+-)?((?:\d+:)?\d+:\d+)(?:\.\d+)?$")
    parts = clock.str.split(":").list.reverse()
    hours = _int(parts.list.get(2, null_on_oob=True)).fill_null(0)
    minutes = _int(parts.list.get(1, null_on_oob=True))
    seconds = _int(parts.list.get(0, null_on_oob=True))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _gpus(tres: pl.Expr) -> pl.Expr:
    """GPUs of `gres/gpu=N`, else the sum of the typed `gres/gpu:TYPE=N`; never both."""
    total = _int(tres.str.extract(r"(?:^|,)(?:gres/)?gpu[=:](\d+)(?:,|$)"))
    typed = (
        tres.str.extract_all(r"gres/gpu:[^=,]+=\d+")
        .list.eval(pl.element().str.extract(r"=(\d+)$").cast(pl.Int64))
        .list.sum()
    )
    return pl.coalesce(total, pl.when(typed > 0).then(typed)).cast(pl.Int32)


def _with_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Times in microseconds; an offset behind a time makes the whole row UTC."""
    zone = r"([+-]\d{2}:?\d{2}|Z)$"
    parsed = {}
    for name in ("submit", "eligible", "start", "end"):
        value = pl.col(f"{name}_text")
        local = value.str.slice(0, 19).str.to_datetime(_TIME, strict=False, time_unit="us")
        offset = value.str.slice(19).str.replace("^Z$", "+0000").str.replace(":", "")
        minutes = _int(offset.str.slice(1, 2)) * 60 + _int(offset.str.slice(3, 2))
        sign = pl.when(offset.str.starts_with("-")).then(-1).otherwise(1)
        shift = pl.when(value.str.contains(zone)).then(minutes * sign * 60_000_000)
        is_whole = (value.str.len_chars() == 19) | value.str.contains(zone)
        parsed[f"{name}_us"] = pl.when(is_whole).then(
            local.cast(pl.Int64) - shift.fill_null(0)
        )
    has_zone = pl.any_horizontal(
        *[pl.col(f"{n}_text").str.contains(zone).fill_null(value=False)
          for n in ("submit", "eligible", "start", "end")]
    )  # fmt: skip
    kind = pl.when(has_zone).then(pl.lit(str(StampKind.UTC)))
    return rows.with_columns(**parsed, stamp_kind=kind.otherwise(pl.lit(str(StampKind.LOCAL))))


def _time_problem(name: str) -> pl.Expr:
    text = pl.col(f"{name}_text")
    return pl.when(text.is_not_null() & pl.col(f"{name}_us").is_null()).then(
        pl.format(f"{name.capitalize()} {{}} is no time", text.str.slice(0, 40))
    )


def _with_nodes(rows: pl.DataFrame) -> pl.DataFrame:
    """Host names of the allocation and of the blamed nodes; each distinct list is read once."""
    return rows.with_columns(
        nodes=_expanded(rows["node_text"]), failed_nodes=_expanded(rows["failed_text"])
    )


def _expanded(texts: pl.Series) -> pl.Series:
    known: dict[str, list[str] | None] = {}
    for text in texts.unique().to_list():
        if text is None:
            continue
        try:
            known[text] = list(expand(text))
        except HostlistError:
            known[text] = None  # the count of nodes stays known
    return pl.Series([known.get(t) for t in texts.to_list()], dtype=pl.List(pl.String))


def _never_started() -> pl.Expr:
    """Ended or waiting without a node: old releases set Start to End for jobs cancelled before."""
    no_nodes = pl.col("node_text").is_in(_NO_NODES) & (pl.col("node_text") != "")
    no_start = pl.col("start_us").is_null()
    return (
        no_nodes.fill_null(value=False)
        | (pl.col("alloc_nodes") == 0).fill_null(value=False)
        | (no_start & pl.col("step_id").is_null())
    )
