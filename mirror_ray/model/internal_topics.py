"""Names of the topics that mirror-ray keeps for itself. MM2's default exclusion leaves such names alone."""

from __future__ import annotations


def segments_topic(source_alias: str, route: str = "") -> str:
    """On the target: which source offset of a flow's partitions is which target offset; of a route, in its topic."""
    return f"mm2-ray-segments.{source_alias}.{f'route-{route}.' if route else ''}internal"


def audit_topic(source_alias: str) -> str:
    """On the target: what failovers and failbacks of a flow have done, step by step."""
    return f"mm2-ray-audit.{source_alias}.internal"


def audit_log_topic(source_alias: str) -> str:
    """On the target: what was changed for a flow, and what operators did, by whom."""
    return f"mm2-ray-audit-log.{source_alias}.internal"


def statistics_topic(source_alias: str) -> str:
    """On the target: what was copied of each partition of a flow, interval by interval."""
    return f"mm2-ray-stats.{source_alias}.internal"


def dead_letters_topic(source_alias: str) -> str:
    """On the target: records of a flow that a transform failed on, where the flow's config names no other topic."""
    return f"mm2-ray-dead-letters.{source_alias}.internal"


def commits_topic(source_alias: str) -> str:
    """On the target: what a flow's groups committed on the source, and when."""
    return f"mm2-ray-commits.{source_alias}.internal"


def schemas_topic(source_alias: str) -> str:
    """On the target: what schema ids of the source's registry are in the target's, and whose records have some."""
    return f"mm2-ray-schemas.{source_alias}.internal"
