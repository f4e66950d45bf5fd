"""`mgpu service`: the master as something of the machine's, by systemd or by cron."""
