"""Who gives a command, and which one, as the audit log and messages name them."""

from __future__ import annotations

import getpass
import socket
import sys


def whoami() -> str:
    """The user and the machine of this process: ``ann@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number that no user has.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def this_command() -> str:
    """This process's command, without its arguments: ``mirror-ray up``."""
    return " ".join(["mirror-ray", *(word for word in sys.argv[1:2] if word.isalpha())])
