"""Settings of a flow's schemas: what is mirrored from registry to registry, and what becomes of ids in records."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mirror_ray.config.base import Settings
from mirror_ray.config.numbers import IntervalSeconds, Patience


class SchemaSettings(Settings):
    """Which subjects are mirrored to the target's schema registry, and the schema ids in records."""

    #: None: not set; then where both clusters have a registry. ``FlowSettings.syncs_schemas`` says whether it is so.
    sync_enabled: bool | None = None
    sync_interval_s: IntervalSeconds = 1.0
    #: How often both registries are compared as a whole.
    full_interval_s: IntervalSeconds = 600.0
    #: Whether the global level and mode of the source's registry, and its contexts' levels, are set on the target's.
    sync_globals: bool = False
    #: ``same``: schemas have the source's ids. ``translated``: they have the target's, and so do records.
    ids: Literal["auto", "same", "translated"] = "auto"
    #: Patterns; a subject of another context than the default one is ``:.CONTEXT:SUBJECT``.
    subjects: tuple[str, ...] = (".*",)
    subjects_exclude: tuple[str, ...] = ()
    #: Names on the target by names on the source.
    subjects_map: dict[str, str] = Field(default_factory=dict)
    #: Whether ``orders-value`` is named as the remote topic of ``orders`` is.
    follow_topics: bool = True
    #: Contexts of the target by contexts of the source; others keep their names.
    contexts_map: dict[str, str] = Field(default_factory=dict)
    #: Patterns of source topics whose keys and values begin with a schema id, and of those where none does; of others
    #: the flow finds out.
    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    #: How long a partition waits for a schema id before it is shown as stopped.
    wait_ms: Patience = 30_000
