"""Who decides on a config of a remote topic, and which configs are numbers."""

from __future__ import annotations

from typing import Final, Literal

#: ``source``: as in MM2; ``target``: it is never altered; ``floor``: the remote topic may have more than its source;
#: ``ceiling``: it may have less.
ConfigPolicy = Literal["source", "target", "floor", "ceiling"]

#: -1 means unlimited in them.
UNLIMITED: Final = frozenset({"retention.ms", "retention.bytes"})
#: Configs that are numbers, of which more and less can be said.
NUMBERS: Final = UNLIMITED | {
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "segment.bytes",
    "segment.ms",
}
