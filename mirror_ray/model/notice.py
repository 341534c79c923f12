"""What an actor reports to the coordinator, which keeps events and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Notice:
    """An event of the gateway."""

    level: Literal["info", "warning"]
    text: str
    #: A request was refused, which belongs to the audit log.
    refused: bool = False
