"""What a lock of pip's pins."""

from __future__ import annotations

import re


def pins(lock: str) -> dict[str, str]:
    """By package: its version, where it is wanted, and its hashes, in one line."""
    entries = re.split(r"\n(?=[a-z0-9])", lock.strip())
    return {entry.partition("==")[0]: re.sub(r"\s*\\\n\s*", " ", entry) for entry in entries}
