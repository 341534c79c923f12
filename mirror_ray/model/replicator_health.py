"""What a replicator says of itself when it is found by its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatorHealth:
    """Who answers behind a replicator's name."""

    #: Of the settings that it works by.
    fingerprint: str
    node_id: str
    pid: int
