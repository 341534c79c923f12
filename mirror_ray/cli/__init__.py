"""The command ``mirror-ray``. Data on stdout, talk on stderr; nothing here imports Ray before a command needs it."""

from __future__ import annotations

import signal
import sys

__all__ = ["INTERRUPTED_CODE", "main"]

#: What a shell shows for a process that SIGINT has ended.
INTERRUPTED_CODE = 130


def main() -> None:
    """Run the command line of this process, and end the process with its exit code.

    Ctrl-C ends it without a traceback from here on, also while the commands are being imported.
    """
    code = INTERRUPTED_CODE
    try:
        from mirror_ray.cli.app import run

        code = run()
    except KeyboardInterrupt:
        pass
    finally:
        # Pressed again while the process ends, it ends it at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)
