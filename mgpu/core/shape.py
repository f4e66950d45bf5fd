"""How many GPUs on how many nodes a request means, and which combinations contradict each other.

As in Slurm, -N fixes the number of nodes and -G the total. What Slurm leaves open is decided here:

- nothing given: one GPU on one node; `-N 2` alone, or `-w a,b` alone: one GPU on each node;
- `-G 8 -N 2`: split as evenly as possible (4 + 4; `-G 3 -N 2` is 2 + 1);
- `--gpus-per-node 4` alone: one node; with `-G 8`: two nodes;
- `-G 8` alone: one node if any node of the inventory has so many, else the fewest nodes that do.
"""

from __future__ import annotations

from dataclasses import dataclass

from mgpu.core.errors import RequestError
from mgpu.core.model import NodeName, Request

MAX_GPUS = 65536
MAX_NODES = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """`sizes` are the GPUs of each part, larger ones first (in rank order if pinned); () = `total` may be split as the
    nodes require. `named` are the nodes that must be used, in rank order; () = the policy chooses."""

    total: int
    sizes: tuple[int, ...]
    named: tuple[NodeName, ...] = ()


def shape_of(request: Request) -> Shape:
    if request.pins:
        sizes = tuple(len(indices) for _, indices in request.pins)
        return Shape(sum(sizes), sizes, tuple(node for node, _ in request.pins))
    nodes = len(request.nodelist) or request.nodes
    per_node = len(request.gpu_ids) or request.gpus_per_node
    if per_node is not None:
        if nodes is None:
            nodes = max(1, (request.gpus or 0) // per_node) if per_node else 1
        return Shape(per_node * nodes, (per_node,) * nodes, request.nodelist)
    if nodes is None:
        gpus = 1 if request.gpus is None else request.gpus
        return Shape(gpus, (gpus,) if gpus <= 1 else ())
    gpus = nodes if request.gpus is None else request.gpus
    share, rest = divmod(gpus, nodes)
    return Shape(gpus, (share + 1,) * rest + (share,) * (nodes - rest), request.nodelist)


def check_shape(request: Request) -> None:
    """Raises RequestError, in one line, for options that contradict each other."""
    _check_sizes(request)
    if request.pins:
        _check_pins(request)
    else:
        _check_names(request)
        _check_counts(request)
    if request.exclusive and (request.pins or request.gpu_ids):
        raise RequestError("--exclusive gives all GPUs of the node: drop --gpu-ids and --node-gpu-ids, or --exclusive")


def _check_sizes(request: Request) -> None:
    for option, count, least, most in (
        ("-G", request.gpus, 0, MAX_GPUS),
        ("-N", request.nodes, 1, MAX_NODES),
        ("--gpus-per-node", request.gpus_per_node, 0, MAX_GPUS),
    ):
        if count is not None and not least <= count <= most:
            raise RequestError(f"{option} {count} is out of range: {least} to {most}")


def _check_pins(request: Request) -> None:
    shape = shape_of(request)
    sizes = set(shape.sizes)
    if request.gpu_ids:
        raise RequestError("--gpu-ids and --node-gpu-ids exclude each other: drop --gpu-ids")
    if request.nodelist and set(request.nodelist) != set(shape.named):
        raise RequestError(f"--node-gpu-ids names {','.join(shape.named)}, -w other nodes: drop -w")
    if request.nodes not in (None, len(shape.named)):
        raise RequestError(f"--node-gpu-ids names {_nodes(len(shape.named))}, -N {request.nodes} differs: drop -N")
    if request.gpus not in (None, shape.total):
        raise RequestError(f"--node-gpu-ids names {_gpus(shape.total)}, -G {request.gpus} differs: drop -G")
    if request.gpus_per_node is not None and sizes != {request.gpus_per_node}:
        raise RequestError(
            f"--gpus-per-node {request.gpus_per_node} differs from what --node-gpu-ids names: drop --gpus-per-node"
        )
    _check_excluded(request, shape.named, "--node-gpu-ids")


def _check_names(request: Request) -> None:
    if not request.nodelist:
        return
    count = len(request.nodelist)
    if request.nodes not in (None, count):
        raise RequestError(
            f"-w names {_nodes(count)} and means all of them, -N {request.nodes} differs: drop -N, or say -N {count}"
        )
    _check_excluded(request, request.nodelist, "-w")


def _check_excluded(request: Request, named: tuple[NodeName, ...], option: str) -> None:
    both = [name for name in named if name in request.exclude]
    if both:
        raise RequestError(f"{both[0]} is both asked for by {option} and excluded by -x: drop one of them")


def _check_counts(request: Request) -> None:
    nodes = len(request.nodelist) or request.nodes
    per_node, option = request.gpus_per_node, "--gpus-per-node"
    if request.gpu_ids:
        if per_node not in (None, len(request.gpu_ids)):
            raise RequestError(
                f"--gpu-ids names {_gpus(len(request.gpu_ids))} a node, --gpus-per-node {per_node} differs: "
                "drop --gpus-per-node"
            )
        per_node, option = len(request.gpu_ids), "--gpu-ids"
    gpus = request.gpus
    if gpus is None:
        return
    if per_node is not None:
        _check_total(gpus, nodes, per_node, option)
    elif nodes is not None and 0 < gpus < nodes:
        raise RequestError(f"-G {gpus} is less than one GPU for each of {_nodes(nodes)}: use -G {nodes}, or -N {gpus}")


def _check_total(gpus: int, nodes: int | None, per_node: int, option: str) -> None:
    """-G must be what the nodes and their share make."""
    if nodes is None:
        if option == "--gpu-ids" and gpus != per_node:
            raise RequestError(f"--gpu-ids names {_gpus(per_node)}, -G {gpus} differs: drop -G")
        if per_node == 0 and gpus == 0:
            return
        if per_node == 0 or gpus == 0 or gpus % per_node:
            raise RequestError(f"-G {gpus} is not a multiple of {option} {per_node}: drop one of them")
    elif gpus != nodes * per_node:
        share = f"{_nodes(nodes)} with {_gpus(per_node)} each"
        raise RequestError(f"-G {gpus} contradicts {share}: use -G {nodes * per_node}, or drop -G")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
