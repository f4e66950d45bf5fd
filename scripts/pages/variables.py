"""Variables, files and exit codes of the commands."""

from __future__ import annotations

from mgpu.cli import variables
from mgpu.cli.manual import EXIT_CODES, FILES, OF_THE_JOB
from scripts.pages.table import code, table

PAGE = """\
# Variables, files, exit codes

## Variables that commands heed

{read}
{of_options}

What a job is told in its environment: [launchers](launchers.md).

## Files

{files}
What lies in the state directory, and for how long: [operation](operation.md#what-is-kept-and-for-how-long).

## Exit codes

{codes}
{of_the_job} More: [in scripts](life-of-a-job.md#in-scripts).
"""


def page() -> str:
    return PAGE.format(
        read=table(("variable", "meaning"), ((code(name), text) for name, text in variables.READ.items())),
        of_options=variables.OF_OPTIONS,
        files=table(("file", "what it is"), ((code(name), text) for name, text in FILES.items())),
        codes=table(("code", "meaning"), ((code(str(number)), text) for number, text in EXIT_CODES.items())),
        of_the_job=OF_THE_JOB,
    )
