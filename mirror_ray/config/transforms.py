"""A flow's transforms by its settings: their chains, checks, routes, and notes on the guarantees that they weaken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mirror_ray.config.loaded import ConfigNote
from mirror_ray.config.settings import FlowSettings, RouteSettings, route_settings
from mirror_ray.model.internal_topics import dead_letters_topic, segments_topic
from mirror_ray.model.names import BACKFILL_ID
from mirror_ray.model.policy import load_policy
from mirror_ray.model.topic_names import illegal_name
from mirror_ray.transforms.chain import NamedTransform
from mirror_ray.transforms.loading import TransformChains, load_step
from mirror_ray.transforms.provenance import Provenance
from mirror_ray.transforms.schema_ids import SchemaIdMap, SchemaIdRules

#: Returns the ids of source and target; called once there are records to copy.
ClusterIds = Callable[[], tuple[str, str]]


def flow_chains(flow: FlowSettings, cluster_ids: ClusterIds, schema_ids: SchemaIdMap | None = None) -> TransformChains:
    """The chains of a flow's topics: provenance first, the user's transforms, schema ids. Heartbeats pass unchanged.

    ``schema_ids``: what ids become, where the flow translates them; None leaves them as they are: to tell by which
    transforms records are copied, and to count them.

    Raises:
        ValueError: A transform can't be loaded; the text says what to do.
    """
    policy, most = load_policy(flow.policy, flow.name.source), flow.provenance.max_hops
    first = None
    if flow.provenance.enabled:
        first = NamedTransform("provenance", Provenance(cluster_ids, most, policy.upstream_names)), f"hops {most}"
    rules = None
    if translates_schema_ids(flow):
        exempt = policy.is_internal_topic
        rules = SchemaIdRules(schema_ids, flow.schemas.topics, flow.schemas.topics_exclude, exempt)
    return TransformChains(flow.transforms.steps, first, policy.is_heartbeats_topic, flow.name.route, rules)


def translates_schema_ids(flow: FlowSettings) -> bool:
    """Whether schema ids in records are translated; so they are until it is decided what ``auto`` means."""
    return flow.syncs_schemas and flow.schemas.ids != "same"


def check_transforms(flow: FlowSettings) -> Iterator[tuple[str, str]]:
    """Yield a field and a sentence for each transform that can't be used."""
    transforms, policy = flow.transforms, load_policy(flow.policy, flow.name.source)
    loaded: list[tuple[int, NamedTransform]] = []
    for number, step in enumerate(transforms.steps):
        try:
            loaded.append((number, load_step(step)))
            TransformChains([step])
        except ValueError as error:
            yield step_field(number), str(error)
    both_sides_write = flow.both_sides_write("topic", policy.format_remote_topic(flow.name.source, "topic"))
    routing = [named.name for _, named in loaded if named.transform.destinations]
    for number, named in loaded:
        if routing and not named.transform.pure:
            why = f"{named.name} is not declared pure, and {routing[0]} routes"
            yield step_field(number), f"{why}: a record that comes out in another way each time could be in no topic"
        if named.transform.destinations and both_sides_write:
            why = f"{named.name} routes, and {flow.name} keeps the names of topics that both sides write"
            yield (
                step_field(number),
                f"{why}: what was routed away would not come back, nor would groups find their places",
            )
        for destination in named.transform.destinations:
            if (fault := _unfit(flow, destination)) is not None:
                yield step_field(number), f"destination {destination}: {fault}"
    topic = transforms.dead_letter_topic
    if topic is not None and load_policy(flow.policy, None).topic_source(topic) == flow.name.source:
        yield (
            "transforms.dead_letter_topic",
            f"{topic} is what a copy of a topic of {flow.name.source} is named: choose another name",
        )


def _unfit(flow: FlowSettings, destination: str) -> str | None:
    """Why records can't be routed to a topic of that name; None: they can."""
    policy, source = load_policy(flow.policy, flow.name.source), flow.name.source
    named = load_policy(flow.policy, None).topic_source(destination) == source
    reasons = {
        "the name is too long for the topic that keeps its offsets": illegal_name(segments_topic(source, destination)),
        "it looks like the id of a backfill, choose another name": BACKFILL_ID.fullmatch(destination),
        "it is an internal topic of Kafka or MirrorMaker 2": policy.is_internal_topic(destination),
        "it is a topic of heartbeats": policy.is_heartbeats_topic(destination),
        "it is the flow's dead-letter topic": destination
        == (flow.transforms.dead_letter_topic or dead_letters_topic(source)),
        f"it is what a copy of a topic of {source} is named, and a route needs a topic of its own": named
        or destination in flow.topics.map.values(),
    }
    return illegal_name(destination) or next((why for why, holds in reasons.items() if holds), None)


def with_routes(flows: Iterable[FlowSettings]) -> Iterator[FlowSettings]:
    """Yield each flow, followed by its routes: a flow for each remote topic that its transforms send records to.

    Raises:
        ValueError: A transform can't be loaded; ``check_transforms`` reports it earlier.
    """
    for flow in flows:
        yield flow
        topics: dict[str, dict[str, None]] = {}
        for step in flow.transforms.steps if flow.enabled else ():
            for destination in load_step(step).transform.destinations:
                topics.setdefault(destination, {}).update(dict.fromkeys(step.topics))
        for destination, patterns in topics.items():
            yield route_settings(flow, RouteSettings(to=destination, topics=tuple(patterns)))


def transform_notes(flows: Iterable[FlowSettings]) -> Iterator[ConfigNote]:
    """Yield a note for each transform that makes a flow's guarantees weaker."""
    for flow in flows:
        for step in flow.transforms.steps if flow.enabled and flow.route is None else ():
            if not load_step(step).transform.pure:
                text = (
                    f"{step.type} is not declared pure: the topics that it is for ({', '.join(step.topics)}) are "
                    "copied at least once, records may be there twice after a failure (docs/transforms.md)"
                )
                yield ConfigNote(kind="guarantee", key=f"{flow.name}: transforms", text=text)


def step_field(number: int) -> str:
    """The field that a mistake in a transform is reported under."""
    return f"transforms.steps[{number}]"
