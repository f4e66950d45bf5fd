"""The monitor in a browser: `mgpu top --web`. For the one who started it, on this machine alone."""
