"""The command compare."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray.cli.comparison_table import plain_comparison, print_comparison
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat
from mirror_ray.cli.output import emit, say
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow
from mirror_ray.cli.verify import asking
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mirror_ray.config.settings import FlowSettings, MirrorSettings
    from mirror_ray.mirror import Mirror
    from mirror_ray.model.names import FlowName
    from mirror_ray.observe.status import TopicStatus
    from mirror_ray.topics.acl_comparison import AclFacts, AclPair
    from mirror_ray.topics.cluster_snapshot import ClusterSnapshot, NoAuthorizer
    from mirror_ray.topics.comparison import FlowComparison
    from mirror_ray.verification.cluster_queries import PartitionQuery
    from mirror_ray.verification.report import BatchHeaders, Halt


def compare(
    flow: RequiredFlow,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics of the source.", show_default=False)
    ] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show every partition.")] = False,
    differences: Annotated[
        bool, typer.Option("--differences", help="Show only what differs and should not, or can't be told.")
    ] = False,
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show a flow's topics on both sides: names, partitions, configs, ACLs, sizes, offsets. Exit 1 on drift.

    Sizes and offsets differ where nothing is wrong (retention, compression, lag): they are shown and not counted.
    Refused topics, stopped and paused partitions, and records that others wrote into a remote topic, are drift; where
    it is not known whose records it holds, that is exit 1, too. Records are not read: `mirror-ray verify` compares
    them.
    """
    flow_name = parse_flow(flow)
    with find_system(config, name, address, flow_name) as (settings, mirror):
        chosen = settings.flow(flow_name)
        told = _told(mirror, flow_name)
        refused = {each.topic for each in told if each.state == "refused"}
        ask = asking(mirror, flow_name)
        compared = compare_flow(settings, chosen, topics or (), _reasons(told), ask, refused)
    shown = [each for each in compared.topics if not differences or each.state != "equal"]
    emit(
        {"flow": flow, **plain_comparison(compared, shown)},
        output,
        lambda: print_comparison(compared, shown, chosen, partitions=partitions, differences=differences),
    )
    if compared.drifted or not compared.headers_known:
        raise typer.Exit(1)


def reasons(mirror: Mirror | None, flow: FlowName) -> dict[str, str]:
    """What a running system says of the topics that it does not copy."""
    return _reasons(_told(mirror, flow))


def _told(mirror: Mirror | None, flow: FlowName) -> Sequence[TopicStatus]:
    try:
        told = mirror.topics(str(flow)) if mirror is not None else ()
    except MirrorError as error:
        say(f"{error}; going on without it", "yellow")
        told = ()
    return [each for each in told if each.flow == str(flow)]


def _reasons(told: Sequence[TopicStatus]) -> dict[str, str]:
    return {each.topic: each.reason for each in told if each.reason}


def compare_flow(
    settings: MirrorSettings,
    flow: FlowSettings,
    topics: Collection[str],
    reasons: Mapping[str, str],
    running: PartitionQuery,
    refused: Collection[str] = (),
) -> FlowComparison:
    """Both sides of a flow's topics, or of these alone.

    Args:
        settings: With the flow's clusters.
        flow: Which one.
        topics: Source topics; empty: all.
        reasons: What a running system says of topics that it does not copy.
        running: PartitionQuerys it for its partitions.
        refused: Topics that it refuses to copy.

    Raises:
        ConfigError: The flow does not copy one of ``topics``.
        ClusterUnreachableError: A cluster does not answer.
    """
    from mirror_ray.config.flow_rules import config_filter
    from mirror_ray.topics.acl_comparison import AclFacts, compare_acls, compare_other_acls
    from mirror_ray.topics.cluster_snapshot import read_acls, take_snapshot
    from mirror_ray.topics.comparison import FlowComparison, compare_topic, with_headers
    from mirror_ray.verification.report import Halt

    seen = asyncio.run(take_snapshot(settings, flow, topics, reasons))
    facts: AclFacts | NoAuthorizer | MirrorError
    try:
        facts = asyncio.run(read_acls(settings, flow, seen))
    except MirrorError as error:
        facts = error
    configs, synced = config_filter(flow), flow.topics.sync_acls_enabled
    acls: dict[str | None, tuple[AclPair, ...]] = {}
    others: tuple[AclPair, ...] = ()
    if isinstance(facts, AclFacts):
        acls = {
            pair.topic: compare_acls(facts, pair.topic, pair.remote_topic, synced=synced)
            for pair in seen.pairs
            if pair.topic is not None
        }
        others = () if topics else compare_other_acls(facts, set(seen.remotes.values()), synced=synced)
    notes = [f"names before are not known: {seen.memory_problem}"] if seen.memory_problem is not None else []
    stopped = {topic: Halt("stopped", reasons.get(topic, "the flow refuses to copy it")) for topic in refused}
    headers = _headers(settings, flow, seen, running, stopped)
    every = [each for some in headers.values() for each in some]
    notes += _not_known(every)
    if not _has_begun(seen):
        notes.append(f"{flow.name} has copied nothing yet: whose records its remote topics hold was not looked at")
    synced_configs = flow.topics.sync_configs_enabled
    return FlowComparison(
        topics=[
            with_headers(
                compare_topic(each, configs, synced=synced_configs, acls=acls.get(each.topic, ())),
                headers.get(each.topic or "", ()),
            )
            for each in seen.pairs
        ],
        other_acls=others,
        acls_not_compared=None if isinstance(facts, AclFacts) else str(facts),
        notes=tuple(notes),
        headers_known=all(each.reason is None for each in every),
    )


def _headers(
    settings: MirrorSettings,
    flow: FlowSettings,
    seen: ClusterSnapshot,
    running: PartitionQuery,
    stopped: Mapping[str, Halt],
) -> dict[str, list[BatchHeaders]]:
    """By topic, of those that have a remote topic; none where the flow has not begun: what is there is not its own."""
    from mirror_ray.verification.batch_headers import read_headers, unread_headers

    if not (_has_begun(seen) or stopped):
        return {}
    sides = {pair.topic: pair.source for pair in seen.pairs if pair.topic is not None and pair.remote is not None}
    there = {topic: side for topic, side in sides.items() if side is not None}
    found: dict[str, list[BatchHeaders]] = {}
    if not there:
        return found
    try:
        read = asyncio.run(read_headers(settings, flow.name, list(there), running))
    except MirrorError as error:
        partitions = [TopicPartition(topic, number) for topic, side in there.items() for number in side.partitions]
        read = asyncio.run(unread_headers(partitions, flow.name, seen.memory, running, str(error)))
    for source, each in read.items():
        halt = each.halt or stopped.get(source.topic)
        found.setdefault(source.topic, []).append(replace(each, halt=halt))
    return found


def _has_begun(seen: ClusterSnapshot) -> bool:
    from mirror_ray.state.schema import FlowStateRecords

    return seen.memory_problem is not None or seen.memory != FlowStateRecords()


def _not_known(headers: Iterable[BatchHeaders]) -> list[str]:
    """A sentence for each reason why it is not known whose records remote partitions hold, and which these are."""
    by_reason: dict[str, list[BatchHeaders]] = {}
    notes = []
    for each in headers:
        if each.reason is not None:
            by_reason.setdefault(each.reason, []).append(each)
        if not each.counted:
            notes += [f"{each.source.topic}: {text}" for text in each.drift]
    for reason, some in by_reason.items():
        more = f" and of {len(some) - 1} more" if len(some) > 1 else ""
        notes.append(f"whose records the copy of {some[0].source} holds{more} is not known: {reason}")
    return notes
