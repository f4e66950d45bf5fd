"""From which state to which: of jobs and of nodes."""

from __future__ import annotations

from mgpu.core.model import JobState, NodeState

JOB_TABLE: dict[JobState, tuple[JobState, ...]] = {
    JobState.PENDING: (JobState.RUNNING, JobState.CANCELLED),
    JobState.RUNNING: (
        JobState.PENDING,  # tried again
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
    ),
    # by somebody's word
    **{state: (JobState.PENDING,) for state in JobState if state.final},
}

NODE_TABLE: dict[NodeState, tuple[NodeState, ...]] = {
    NodeState.UNKNOWN: (NodeState.UP, NodeState.DOWN, NodeState.DRAINING),
    NodeState.UP: (NodeState.DOWN, NodeState.DRAINING),
    NodeState.DOWN: (NodeState.UP, NodeState.DRAINING),
    NodeState.DRAINING: (NodeState.DRAINED, NodeState.UP, NodeState.DOWN, NodeState.UNKNOWN),
    NodeState.DRAINED: (NodeState.UP, NodeState.DOWN, NodeState.UNKNOWN),
}
