"""Exit codes that are not those of an error's kind."""

from __future__ import annotations

from typing import Final

#: What a shell shows for a process that SIGINT has ended.
INTERRUPTED_CODE: Final = 130
