"""A flow's rules for subjects, from its settings."""

from __future__ import annotations

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.registry.subjects import SubjectRules


def subject_rules(flow: FlowSettings) -> SubjectRules:
    """A flow's rules for subjects."""
    schemas = flow.schemas
    return SubjectRules(
        topics=replication_rules(flow),
        include=compile_patterns(schemas.subjects),
        exclude=compile_patterns(schemas.subjects_exclude),
        names=schemas.subjects_map,
        contexts=schemas.contexts_map,
        follow_topics=schemas.follow_topics,
    )
