"""Keys of a flow's schemas."""

from __future__ import annotations

from typing import Final

from mirror_ray.config.keys.key import ValueKind, used
from mirror_ray.config.keys.shared import OURS

SCHEMA_KEYS: Final = (
    used(
        "sync.schemas.enabled",
        "schemas.sync_enabled",
        ValueKind.BOOLEAN,
        text=OURS,
        silent="true where both clusters have a schema registry",
    ),
    used("sync.schemas.interval.seconds", "schemas.sync_interval_s", ValueKind.INTERVAL, "1", OURS),
    used("schemas.full.interval.seconds", "schemas.full_interval_s", ValueKind.SECONDS, "600", OURS),
    used("sync.schemas.global.enabled", "schemas.sync_globals", ValueKind.BOOLEAN, "false", OURS),
    used("schemas.ids", "schemas.ids", ValueKind.WORD, "auto", OURS),
    used("schemas.subjects", "schemas.subjects", ValueKind.LIST, ".*", OURS),
    used("schemas.subjects.exclude", "schemas.subjects_exclude", ValueKind.LIST, text=OURS),
    used("schemas.subjects.map", "schemas.subjects_map", ValueKind.SUBJECTS, text=OURS),
    used("schemas.subjects.follow.topics", "schemas.follow_topics", ValueKind.BOOLEAN, "true", OURS),
    used("schemas.contexts.map", "schemas.contexts_map", ValueKind.CONTEXTS, text=OURS),
    used("schemas.topics", "schemas.topics", ValueKind.LIST, text=OURS, silent="none: the flow finds out"),
    used("schemas.topics.exclude", "schemas.topics_exclude", ValueKind.LIST, text=OURS),
    used("schemas.wait.ms", "schemas.wait_ms", ValueKind.INTEGER, "30000", OURS),
)
