"""The variables that commands heed, beside one for each option of a job."""

from __future__ import annotations

READ = {
    "MGPU_CONFIG": "The cluster's configuration, as --config.",
    "MGPU_STATE_DIR": "Where the master keeps all, as --state-dir.",
    "MGPU_MASTER": "The master: its socket, ssh://user@head or https://head:port, as --master.",
    "MGPU_TOKEN": "What a client shows that comes over TCP; counts more than the one that `mgpu token save` kept.",
    "MGPU_TOKEN_FILE": "A file that holds it.",
    "MGPU_CONNECTION_TIMEOUT": "For how many seconds any command tries to reach a master that others started.",
    "XDG_CONFIG_HOME": "Where the user's own files are looked for (~/.config): mgpu/config.yaml, "
    "mgpu/cluster_config.yaml.",
    "XDG_STATE_HOME": "Where the state of a personal master lies (~/.local/state): mgpu.",
    "NO_COLOR": "No colours, whatever its value.",
}
OF_OPTIONS = (
    "Every option of a job, under its long name in capitals: MGPU_GPU_TYPE for --gpu-type. The command line counts "
    "more, ~/.config/mgpu/config.yaml less. A switch is 1 or 0."
)
