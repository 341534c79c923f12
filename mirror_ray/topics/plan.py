"""The result of ``mirror-ray plan``: frozen values that become a table, JSON or YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.model.names import FlowName
from mirror_ray.model.topics import NewRemoteTopic
from mirror_ray.topics.preservation import PreservationCost
from mirror_ray.topics.remote_topics import RemoteTopicPlan, SharedRemote
from mirror_ray.topics.schema_plan import SchemaPlan

ResourceType = Literal["TOPIC", "CLUSTER", "TRANSACTIONAL_ID", "GROUP"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredRight:
    """Operations that a cluster must grant our principal on a resource, or on each of several topics."""

    cluster: str
    resource_type: ResourceType
    #: A name, or what the topics have in common ("topics that A->B copies").
    resource: str
    #: Kafka's ``AclOperation`` names.
    operations: tuple[str, ...]
    why: str
    #: What the brokers don't grant, one ``resource: OPERATION`` each.
    missing: tuple[str, ...] = ()
    #: Whether the brokers could be asked; if not, ``missing`` says nothing.
    checked: bool = True
    #: Whether everything is copied without it.
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """One cluster that flows use."""

    alias: str
    cluster_id: str
    brokers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    """What starting a flow would do."""

    flow: FlowName
    enabled: bool
    #: Every source topic that the flow copies.
    topics: tuple[RemoteTopicPlan, ...] = ()
    #: Where topics without progress begin, by source topic.
    begins: Mapping[str, str] = field(default_factory=dict)
    #: What it costs to begin those of them whose offsets are preserved.
    preserved: tuple[PreservationCost, ...] = ()
    #: Topics of our own that would be created on the target.
    internal_topics: tuple[NewRemoteTopic, ...] = ()
    #: Topics that would not be copied, one sentence each: filled by others, recreated, or not to be created.
    refused: tuple[str, ...] = ()
    #: About the flow as a whole; a topic's own are in ``topics``.
    warnings: tuple[str, ...] = ()
    #: None: the flow syncs no schemas, or its registries can't be compared, which is among what is refused.
    schemas: SchemaPlan | None = None

    @property
    def created(self) -> tuple[NewRemoteTopic, ...]:
        """Remote topics that would be created."""
        return tuple(topic.create for topic in self.topics if topic.create is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPlan:
    """What starting a configuration would do. Nothing has been changed."""

    clusters: tuple[ClusterPlan, ...]
    flows: tuple[FlowPlan, ...]
    rights: tuple[RequiredRight, ...]
    shared: tuple[SharedRemote, ...] = ()

    @property
    def missing_rights(self) -> tuple[RequiredRight, ...]:
        """Rights that copying needs and that are not granted in full, as far as the brokers say."""
        return tuple(right for right in self.rights if right.missing and not right.optional)

    @property
    def ok(self) -> bool:
        """Whether every topic of every flow would be copied, with its schemas."""
        refused = any(flow.refused or (flow.schemas and flow.schemas.refused) for flow in self.flows)
        return not (self.missing_rights or refused)
