"""Programs that stand where those of the system would, and words that are hard to quote."""

from __future__ import annotations

from mgpu.cli.service.master_line import MasterLine

NASTY = '/srv/it\'s 50% $HOME "a"/q\\%z;#`x`'
LINE = MasterLine("/usr/bin/python3", "", "/etc/mgpu/cluster_config.yaml", "/var/lib/mgpu")

CRONTAB = """#!/bin/sh
table=$HOME/crontab
case $1 in
-l) [ -e "$table" ] || { echo "no crontab for $LOGNAME" >&2; exit 1; }; cat "$table" ;;
-r) rm "$table" ;;
-) cat >"$table" ;;
esac
"""


def settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
