"""Who gives a command, as the audit log names them."""

from __future__ import annotations

import getpass
import socket


def whoami() -> str:
    """The user and the machine of this process: ``ann@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number that no user has.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
