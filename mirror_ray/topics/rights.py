"""Which rights a flow needs on its clusters, and which of them are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_ray.config.internal_topics import InternalTopic
from mirror_ray.model.names import FlowName
from mirror_ray.topics.plan import RequiredRight

Granted = Mapping[str, frozenset[str] | None]

SOURCE_TOPIC: Final = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")
#: READ and DESCRIBE as well: the replication position is read from the remote topic itself.
REMOTE_TOPIC: Final = ("WRITE", "READ", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS")
INTERNAL_TOPIC: Final = ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")
SCHEMA_IDS_TOPIC: Final = ("READ", "WRITE", "DESCRIBE")
OFFSET_SYNCS_TOPIC: Final = ("WRITE", "DESCRIBE")
HEARTBEATS_TOPIC: Final = ("WRITE", "DESCRIBE")
CLUSTER: Final = ("CREATE", "IDEMPOTENT_WRITE")
TRANSACTIONAL_ID: Final = ("WRITE", "DESCRIBE")
MARKERS: Final = ("ALTER",)

#: Operations that imply another one (Kafka's AclAuthorizer and StandardAuthorizer).
_IMPLIED_BY: Final = {
    "DESCRIBE": frozenset({"READ", "WRITE", "DELETE", "ALTER"}),
    "DESCRIBE_CONFIGS": frozenset({"ALTER_CONFIGS"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTopics:
    """The topics that one flow uses. Brokers grant nothing on a topic that doesn't exist yet."""

    flow: FlowName
    source: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    #: None where the flow copies nothing.
    state: str | None = None
    #: The id that the state is written with; None: the flow copies nothing.
    transactional_id: str | None = None
    #: Whether the flow preserves offsets of topics.
    preserves_offsets: bool = False
    #: Topics of offsets, on either side.
    offsets: tuple[InternalTopic, ...] = ()
    #: None: the flow changes nothing, or has no audit log.
    audit: InternalTopic | None = None
    #: None: the flow syncs no schemas.
    schema_ids: InternalTopic | None = None
    #: None: the flow emits no heartbeats.
    heartbeats: str | None = None
    #: Whether the flow syncs ACLs.
    acls: bool = False
    #: Whether the target refused to create one of them for want of a right.
    creation_refused: bool = False


def flow_rights(
    topics: FlowTopics,
    source: Granted,
    target: Granted,
    target_cluster: frozenset[str] | None,
    source_cluster: frozenset[str] | None = None,
) -> tuple[RequiredRight, ...]:
    """All rights that a flow needs, with the operations that its clusters don't grant."""
    flow = topics.flow
    rights: list[RequiredRight] = []
    if topics.state is not None:
        copied = f"topics that {flow} copies"
        rights.append(_topic_right(flow.source, copied, topics.source, SOURCE_TOPIC, source, why="to read them"))
        remote = f"remote topics of {flow}"
        why = "to write them and to see how far they are"
        rights.append(_topic_right(flow.target, remote, topics.remote, REMOTE_TOPIC, target, why=why))
        rights.append(_topic_right(flow.target, topics.state, None, INTERNAL_TOPIC, target, why="to keep positions"))
    for topic in topics.offsets:
        cluster, granted = (flow.source, source) if topic.side == "source" else (flow.target, target)
        operations = OFFSET_SYNCS_TOPIC if topic.side == "source" else INTERNAL_TOPIC
        rights.append(_topic_right(cluster, topic.name, None, operations, granted, why=topic.why))
    if topics.offsets:
        rights.append(_group_right(flow.source, "DESCRIBE", "to see where consumer groups stand"))
        rights.append(_group_right(flow.target, "READ", "to set consumer groups' offsets"))
    if topics.audit is not None:
        audit = topics.audit
        rights.append(_topic_right(flow.target, audit.name, None, INTERNAL_TOPIC, target, why=audit.why))
    if topics.schema_ids is not None:
        ids = topics.schema_ids
        rights.append(_topic_right(flow.target, ids.name, None, SCHEMA_IDS_TOPIC, target, why=ids.why))
    if topics.transactional_id is not None:
        why = "so that only one coordinator writes positions"
        rights.append(_transactional_right(flow.target, topics.transactional_id, why))
        if topics.preserves_offsets:
            gaps = f"{topics.transactional_id}-gaps-*"
            rights.append(_transactional_right(flow.target, gaps, "so that replicators can fill gaps of offsets"))
            why = "so that gaps of offsets are filled by markers, without transactions"
            rights.append(_optional_right(flow.target, MARKERS, target_cluster, why))
    if topics.heartbeats is not None:
        beats = topics.heartbeats
        rights.append(_topic_right(flow.target, beats, None, HEARTBEATS_TOPIC, target, why="to emit heartbeats"))
    rights.append(_cluster_right(topics, target, target_cluster))
    if topics.acls:
        for side, wanted, granted_there, why in (
            (flow.source, ("DESCRIBE",), source_cluster, "to see the ACLs that are kept in step"),
            (flow.target, ("DESCRIBE", "ALTER"), target_cluster, "to keep ACLs in step"),
        ):
            remedy = f"{why}; where they are not, turn sync.topic.acls.enabled off"
            rights.append(_optional_right(side, wanted, granted_there, remedy))
    return tuple(rights)


def merge_rights(rights: Iterable[RequiredRight]) -> tuple[RequiredRight, ...]:
    """Each right once, in order."""
    return tuple(dict.fromkeys(rights))


def missing_operations(granted: frozenset[str], operations: Iterable[str]) -> tuple[str, ...]:
    """Operations that are neither granted nor implied by one that is."""
    return tuple(
        operation
        for operation in operations
        if operation not in granted and not (_IMPLIED_BY.get(operation, frozenset()) & granted)
    )


def _topic_right(
    cluster: str,
    resource: str,
    names: tuple[str, ...] | None,
    operations: tuple[str, ...],
    granted: Granted,
    *,
    why: str,
) -> RequiredRight:
    """``names``: of the topics that ``resource`` stands for; None: it is a topic's own."""
    names = (resource,) if names is None else names
    known = {name: operations_of for name in names if (operations_of := granted.get(name)) is not None}
    missing = tuple(
        f"{name}: {operation}"
        for name, operations_of in known.items()
        for operation in missing_operations(operations_of, operations)
    )
    return RequiredRight(
        cluster=cluster,
        resource_type="TOPIC",
        resource=resource,
        operations=operations,
        why=why,
        missing=missing,
        checked=len(known) == len(names),
    )


def _cluster_right(topics: FlowTopics, target: Granted, granted: frozenset[str] | None) -> RequiredRight:
    """CREATE may be granted on topics instead, and who may WRITE any topic may write it idempotently (KIP-679).

    Without DESCRIBE on the cluster its brokers don't say what they grant (``granted`` is None); a refused creation
    shows it.
    """
    missing: list[str] = []
    if topics.creation_refused and "CREATE" not in (granted or ()):
        missing.append("kafka-cluster: CREATE")
    writes = any("WRITE" in (operations or ()) for operations in target.values())
    if granted is not None and not writes and "IDEMPOTENT_WRITE" not in granted:
        missing.append("kafka-cluster: IDEMPOTENT_WRITE")
    return RequiredRight(
        cluster=topics.flow.target,
        resource_type="CLUSTER",
        resource="kafka-cluster",
        operations=CLUSTER,
        why="to create topics (or CREATE on each of them) and to write idempotently (or WRITE on any topic)",
        missing=tuple(missing),
        checked=granted is not None,
    )


def _optional_right(
    cluster: str, operations: tuple[str, ...], granted: frozenset[str] | None, why: str
) -> RequiredRight:
    missing = () if granted is None else missing_operations(granted, operations)
    return RequiredRight(
        cluster=cluster,
        resource_type="CLUSTER",
        resource="kafka-cluster",
        operations=operations,
        why=why,
        missing=tuple(f"kafka-cluster: {operation}" for operation in missing),
        checked=granted is not None,
        optional=True,
    )


def _group_right(cluster: str, operation: str, why: str) -> RequiredRight:
    return RequiredRight(
        cluster=cluster, resource_type="GROUP", resource="*", operations=(operation,), why=why, checked=False
    )


def _transactional_right(cluster: str, transactional_id: str, why: str) -> RequiredRight:
    return RequiredRight(
        cluster=cluster,
        resource_type="TRANSACTIONAL_ID",
        resource=transactional_id,
        operations=TRANSACTIONAL_ID,
        why=why,
        checked=False,
    )
