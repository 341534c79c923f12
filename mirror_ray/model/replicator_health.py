"""What a replicator that is found by its name answers about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatorHealth:
    """The process behind a replicator's name."""

    #: Of the settings that it works by.
    fingerprint: str
    node_id: str
    pid: int
