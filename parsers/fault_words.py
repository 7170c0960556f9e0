"""The closed sets of words with which the failure catalogue says what an event means."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What the event does to progress."""

    FAIL_STOP = "fail_stop"
    HANG = "hang"
    FAIL_SLOW = "fail_slow"
    PRECURSOR = "precursor"
    CONTEXT = "context"
    BENIGN = "benign"


class Domain(StrEnum):
    """Who would fix it."""

    INFRASTRUCTURE = "infrastructure"
    WORKLOAD = "workload"
    OPERATOR = "operator"
    UNKNOWN = "unknown"


class Role(StrEnum):
    """What the event can say about the cause of an incident."""

    ROOT = "root"
    EITHER = "either"
    SYMPTOM = "symptom"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONTEXT = "context"
    RECOVERY = "recovery"


class Scope(StrEnum):
    """What the event is about: the smallest thing that it names."""

    GPU = "gpu"
    RANK = "rank"
    NODE = "node"
    JOB = "job"
    POD = "pod"


class Component(StrEnum):
    """What failed, as family.kind; the same word is the type of an incident."""

    GPU_BUS = "gpu.bus"
    GPU_ENGINE = "gpu.engine"
    GPU_FIRMWARE = "gpu.firmware"
    GPU_MEMORY = "gpu.memory"
    GPU_OTHER = "gpu.other"
    GPU_POWER_THERMAL = "gpu.power_thermal"
    GPU_UNKNOWN = "gpu.unknown"
    NVLINK_LINK = "nvlink.link"
    NVLINK_SWITCH = "nvlink.switch"
    NETWORK_LINK = "network.link"
    NETWORK_NIC = "network.nic"
    NETWORK_PATH = "network.path"
    HOST_CPU = "host.cpu"
    HOST_MEMORY = "host.memory"
    HOST_OS = "host.os"
    HOST_OTHER = "host.other"
    HOST_PCIE = "host.pcie"
    HOST_POWER = "host.power"
    HOST_UNKNOWN = "host.unknown"
    STORAGE_CAPACITY = "storage.capacity"
    STORAGE_DISK = "storage.disk"
    STORAGE_FS = "storage.fs"
    STORAGE_OBJECT_STORE = "storage.object_store"
    CHECKPOINT_CORRUPT = "checkpoint.corrupt"
    CHECKPOINT_LOAD = "checkpoint.load"
    CHECKPOINT_MISMATCH = "checkpoint.mismatch"
    CHECKPOINT_SAVE = "checkpoint.save"
    SOFTWARE_COMM_LIB = "software.comm_lib"
    SOFTWARE_CONFIG = "software.config"
    SOFTWARE_DATALOADER = "software.dataloader"
    SOFTWARE_DRIVER = "software.driver"
    SOFTWARE_GPU_KERNEL = "software.gpu_kernel"
    SOFTWARE_GPU_OOM = "software.gpu_oom"
    SOFTWARE_PROCESS = "software.process"
    SOFTWARE_UNKNOWN = "software.unknown"
    SOFTWARE_USER = "software.user"
    NUMERICAL_NAN = "numerical.nan"
    NUMERICAL_SDC = "numerical.sdc"
    COMM_ABORT = "comm.abort"
    COMM_BOOTSTRAP = "comm.bootstrap"
    COMM_HANG = "comm.hang"
    COMM_PEER_LOST = "comm.peer_lost"
    COMM_STORE = "comm.store"
    COMM_SYSTEM = "comm.system"
    COMM_TRACE = "comm.trace"
    PROCESS_EXIT = "process.exit"
    SCHEDULER_CANCEL = "scheduler.cancel"
    SCHEDULER_DRAIN = "scheduler.drain"
    SCHEDULER_END = "scheduler.end"
    SCHEDULER_EVICT = "scheduler.evict"
    SCHEDULER_LAUNCH = "scheduler.launch"
    SCHEDULER_MAINTENANCE = "scheduler.maintenance"
    SCHEDULER_NODE_FAIL = "scheduler.node_fail"
    SCHEDULER_PREEMPT = "scheduler.preempt"
    SCHEDULER_QUEUE = "scheduler.queue"
    SCHEDULER_REQUEUE = "scheduler.requeue"
    SCHEDULER_TIME_LIMIT = "scheduler.time_limit"
    OPERATOR_MANUAL_RESTART = "operator.manual_restart"
    OPERATOR_CODE_CHANGE = "operator.code_change"
    LIFECYCLE_COMM_INIT = "lifecycle.comm_init"
    LIFECYCLE_RENDEZVOUS = "lifecycle.rendezvous"
    LIFECYCLE_RESTART = "lifecycle.restart"
    PERFORMANCE_STRAGGLER = "performance.straggler"
    PERFORMANCE_STRAGGLER_COMPUTE = "performance.straggler_compute"
    PERFORMANCE_STRAGGLER_NETWORK = "performance.straggler_network"
    PERFORMANCE_THROTTLE = "performance.throttle"
    PERFORMANCE_IO_STALL = "performance.io_stall"
