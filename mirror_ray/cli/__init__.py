"""The command ``mirror-ray``. Data on stdout, messages on stderr; nothing imports Ray before a command needs it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import Final, NoReturn

#: What a shell shows for a process that SIGINT has ended.
INTERRUPTED_CODE: Final = 130
#: Imports make objects by the hundred thousand and no cycles worth a search at each seven hundred new ones, Python's
#: default: that is a seventh of the time in which a command is ready.
_COLLECT_AFTER_OBJECTS: Final = 50_000


def main() -> None:
    """Run the command line of this process, and end the process with its exit code.

    Ctrl-C ends it with one line from here on, also while the commands are being imported.
    """
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)
    code: str | int | None = INTERRUPTED_CODE
    try:
        from mirror_ray.cli.app import run

        code = run()
    except KeyboardInterrupt:
        pass
    except SystemExit as ended:
        code = ended.code
    finally:
        # Pressed again while the process ends, it ends it at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if code == INTERRUPTED_CODE:
        _end_interrupted()
    sys.exit(code)


def _end_interrupted() -> NoReturn:
    """Say so, and end without what libraries do at a process's end: Ray, broken off in its middle, crashes there."""
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
    os._exit(INTERRUPTED_CODE)
