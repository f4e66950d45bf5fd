"""What the cluster is: YAML with line and column in every fault, trust in files, and the user's own ssh_config."""

from mgpu.config.model import Config, NodeConfig, PartitionConfig, SshSettings
from mgpu.config.sshconfig import SshTarget, resolve
from mgpu.config.trust import trusted

__all__ = [
    "Config",
    "NodeConfig",
    "PartitionConfig",
    "SshSettings",
    "SshTarget",
    "resolve",
    "trusted",
]
