"""mgpu: one queue for the GPU boxes that you can merely SSH into.

From Python: `from mgpu import Client`. What it offers is loaded when it is first asked for: the commands, which import
this package too, need none of it.
"""

# What client and master say to each other: another number means that they do not understand each other.
WIRE = 1
__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mgpu.client.http import MasterError, NoMaster
    from mgpu.sdk.aio import AsyncClient
    from mgpu.sdk.client import Client
    from mgpu.sdk.older import NodeInfo, NodeManager, SimpleClient, SimpleMaster, SimpleNode
    from mgpu.sdk.values import (
        Allocation,
        Completed,
        Gpu,
        GpuProcess,
        Job,
        JobFailed,
        Line,
        Node,
        Output,
        Prospects,
        Refused,
        Status,
        Submitted,
    )

_HOMES = {
    "mgpu.client.http": ("MasterError", "NoMaster"),
    "mgpu.sdk.aio": ("AsyncClient",),
    "mgpu.sdk.client": ("Client",),
    "mgpu.sdk.older": ("NodeInfo", "NodeManager", "SimpleClient", "SimpleMaster", "SimpleNode"),
    "mgpu.sdk.values": (
        *("Allocation", "Completed", "Gpu", "GpuProcess", "Job", "JobFailed", "Line", "Node", "Output", "Prospects"),
        *("Refused", "Status", "Submitted"),
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "WIRE",
    "Allocation",
    "AsyncClient",
    "Client",
    "Completed",
    "Gpu",
    "GpuProcess",
    "Job",
    "JobFailed",
    "Line",
    "MasterError",
    "NoMaster",
    "Node",
    "NodeInfo",
    "NodeManager",
    "Output",
    "Prospects",
    "Refused",
    "SimpleClient",
    "SimpleMaster",
    "SimpleNode",
    "Status",
    "Submitted",
    "__version__",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'mgpu' has no attribute {name!r}")
    found: object = getattr(__import__(home, fromlist=[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
