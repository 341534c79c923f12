"""Which rights a flow needs, and which are found to be missing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from mirror_ray.config.internal_topics import InternalTopic
from mirror_ray.model.names import FlowName
from mirror_ray.topics.plan import RequiredRight, SystemPlan
from mirror_ray.topics.rights import FlowTopics, flow_rights, missing_operations

ALL = frozenset({"READ", "WRITE", "CREATE", "DESCRIBE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"})
FLOW = FlowTopics(
    flow=FlowName("A", "B"),
    source=("t",),
    remote=("A.t",),
    state="mm2-ray-state.A.internal",
    transactional_id="mirror-ray-A-to-B",
    heartbeats="heartbeats",
)


def rights_on(resource: str, rights: tuple[RequiredRight, ...]) -> RequiredRight:
    """The one right on a resource."""
    return next(right for right in rights if resource in right.resource)


def test_nothing_is_missing_where_everything_is_granted() -> None:
    """A principal with all rights misses none, on either cluster."""
    target = dict.fromkeys(("A.t", "mm2-ray-state.A.internal", "heartbeats"), ALL)
    rights = flow_rights(FLOW, {"t": ALL}, target, frozenset({"CREATE", "IDEMPOTENT_WRITE"}))
    assert [right for right in rights if right.missing] == []


def test_a_remote_topic_needs_more_than_write() -> None:
    """READ and DESCRIBE on remote topics are asked for: progress is read from them."""
    rights = flow_rights(FLOW, {"t": ALL}, {"A.t": frozenset({"WRITE", "DESCRIBE"})}, frozenset())
    remote = rights_on("remote topics of A->B", rights)
    assert {"READ", "DESCRIBE", "WRITE"} <= set(remote.operations)
    assert "A.t: READ" in remote.missing
    assert "A.t: DESCRIBE" not in remote.missing


def test_what_can_not_be_asked_is_not_called_missing() -> None:
    """Topics that don't exist yet and transactional ids are marked as unchecked."""
    rights = flow_rights(FLOW, {"t": ALL}, {}, None)
    for resource in ("remote topics", "mm2-ray-state", "mirror-ray-A-to-B", "kafka-cluster"):
        right = rights_on(resource, rights)
        assert not right.checked
        assert right.missing == ()


def test_create_on_topics_stands_in_for_create_on_the_cluster() -> None:
    """CREATE on the cluster is missing only if the target refused to create a topic."""
    refused = FlowTopics(flow=FLOW.flow, state="s", creation_refused=True)
    accepted = FlowTopics(flow=FLOW.flow, state="s")
    for granted in (frozenset[str](), None):
        assert "kafka-cluster: CREATE" in rights_on("kafka-cluster", flow_rights(refused, {}, {}, granted)).missing
    assert "kafka-cluster: CREATE" not in rights_on("kafka-cluster", flow_rights(accepted, {}, {}, frozenset())).missing


def test_write_on_a_topic_stands_in_for_idempotent_write() -> None:
    """Since KIP-679 whoever may write any topic may write it idempotently."""
    rights = flow_rights(FLOW, {}, {"A.t": frozenset({"WRITE"})}, frozenset())
    assert rights_on("kafka-cluster", rights).missing == ()


def test_a_flow_that_copies_nothing_needs_heartbeats_only() -> None:
    """A disabled flow asks for no rights on its source."""
    rights = flow_rights(FlowTopics(flow=FLOW.flow, heartbeats="heartbeats"), {}, {}, frozenset())
    assert {right.cluster for right in rights} == {"B"}
    assert "heartbeats" in [right.resource for right in rights]


def test_describe_comes_with_other_operations() -> None:
    """Kafka's authorizer implies DESCRIBE and DESCRIBE_CONFIGS."""
    assert missing_operations(frozenset({"READ", "ALTER_CONFIGS"}), ("DESCRIBE", "DESCRIBE_CONFIGS")) == ()
    assert missing_operations(frozenset({"DESCRIBE"}), ("READ",)) == ("READ",)


def test_rights_become_json() -> None:
    """Rights are plain values."""
    assert json.dumps([asdict(right) for right in flow_rights(FLOW, {}, {}, None)])


def test_rights_to_keep_acls_in_step_are_optional() -> None:
    """Everything is copied without them."""
    keeping = replace(FLOW, acls=True)
    rights = flow_rights(keeping, {}, {}, frozenset({"DESCRIBE"}), frozenset())
    assert [(right.cluster, right.missing) for right in rights if right.optional] == [
        ("A", ("kafka-cluster: DESCRIBE",)),
        ("B", ("kafka-cluster: ALTER",)),
    ]
    assert not SystemPlan(
        clusters=(), flows=(), rights=tuple(right for right in rights if right.optional)
    ).missing_rights
    assert not [right for right in flow_rights(FLOW, {}, {}, None) if right.optional]


def test_schema_ids_are_kept_by_who_may_read_and_write_them() -> None:
    """Nothing is asked for where no schemas are synced."""
    ids = InternalTopic(name="mm2-ray-schemas.A.internal", why="to keep what schema ids become")
    rights = flow_rights(replace(FLOW, schema_ids=ids), {}, {ids.name: frozenset({"WRITE", "DESCRIBE"})}, None)
    right = rights_on(ids.name, rights)
    assert (right.cluster, right.operations, right.missing) == (
        "B",
        ("READ", "WRITE", "DESCRIBE"),
        (f"{ids.name}: READ",),
    )
    assert not any(ids.name in right.resource for right in flow_rights(FLOW, {}, {}, None))
