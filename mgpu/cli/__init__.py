"""The commands. click is imported here first, in half the time: see mgpu.cli.spare."""

from mgpu.cli.spare import import_click

import_click()
