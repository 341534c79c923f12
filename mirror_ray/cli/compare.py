"""The command compare."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, Format, FormatOption, NameOption
from mirror_ray.cli.output import emit, say
from mirror_ray.cli.side_by_side import plain_comparison, print_comparison
from mirror_ray.cli.systems import ConfigOption, find_system, parse_flow
from mirror_ray.cli.verify import asking
from mirror_ray.model.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mirror_ray.config.settings import FlowSettings, MirrorSettings
    from mirror_ray.mirror import Mirror
    from mirror_ray.model.names import FlowName
    from mirror_ray.topics.acl_comparing import AclFacts, AclPair
    from mirror_ray.topics.comparing import FlowComparison
    from mirror_ray.topics.survey import NoAuthorizer, Survey
    from mirror_ray.verification.account import Headers
    from mirror_ray.verification.ends import Ask


def compare(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="For example 'A->B'.", show_default=False)],
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics of the source.", show_default=False)
    ] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show every partition.")] = False,
    differences: Annotated[
        bool, typer.Option("--differences", help="Show only what differs and should not, or can't be told.")
    ] = False,
    config: ConfigOption = None,
    output: FormatOption = Format.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show a flow's topics on both sides: names, partitions, configs, ACLs, sizes, offsets. Exit 1 on drift.

    Sizes and offsets differ where nothing is wrong (retention, compression, lag): they are shown and not counted.
    Stopped and paused partitions, and records that others wrote into a remote topic, are drift. Records are not read:
    `mirror-ray verify` compares them.
    """
    flow_name = parse_flow(flow)
    with find_system(config, name, address, flow_name) as (settings, mirror):
        chosen = settings.flow(flow_name)
        compared = compare_flow(settings, chosen, topics or (), reasons(mirror, flow_name), asking(mirror, flow_name))
    shown = [each for each in compared.topics if not differences or each.state != "equal"]
    emit(
        {"flow": flow, **plain_comparison(compared, shown)},
        output,
        lambda: print_comparison(compared, shown, chosen, partitions=partitions, differences=differences),
    )
    if compared.drifted:
        raise typer.Exit(1)


def reasons(mirror: Mirror | None, flow: FlowName) -> dict[str, str]:
    """What a running system says of the topics that it does not copy."""
    try:
        told = mirror.topics(str(flow)) if mirror is not None else ()
    except MirrorError as error:
        say(f"{error}; going on without it", "yellow")
        told = ()
    return {each.topic: each.reason for each in told if each.reason and each.flow == str(flow)}


def compare_flow(
    settings: MirrorSettings, flow: FlowSettings, topics: Collection[str], reasons: Mapping[str, str], running: Ask
) -> FlowComparison:
    """Both sides of a flow's topics, or of these alone.

    Args:
        settings: With the flow's clusters.
        flow: Which one.
        topics: Source topics; empty: all.
        reasons: What a running system says of topics that it does not copy.
        running: Asks it for its partitions.

    Raises:
        ConfigError: The flow does not copy one of ``topics``.
        ClusterUnreachableError: A cluster does not answer.
    """
    from mirror_ray.topics.acl_comparing import AclFacts, compare_acls, compare_other_acls
    from mirror_ray.topics.comparing import FlowComparison, compare_topic, with_headers
    from mirror_ray.topics.selection import config_filter
    from mirror_ray.topics.survey import survey, survey_acls

    seen = asyncio.run(survey(settings, flow, topics, reasons))
    facts: AclFacts | NoAuthorizer | MirrorError
    try:
        facts = asyncio.run(survey_acls(settings, flow, seen))
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
    headers: Mapping[str | None, list[Headers]] = {}
    try:
        headers = _headers(settings, flow, seen, running)
    except MirrorError as error:
        notes.append(f"who wrote the remote topics' records is not known: {error}")
    synced_configs = flow.topics.sync_configs_enabled
    return FlowComparison(
        topics=[
            with_headers(
                compare_topic(each, configs, synced=synced_configs, acls=acls.get(each.topic, ())),
                headers.get(each.topic, ()),
            )
            for each in seen.pairs
        ],
        other_acls=others,
        acls_not_compared=None if isinstance(facts, AclFacts) else str(facts),
        notes=tuple(notes),
    )


def _headers(
    settings: MirrorSettings, flow: FlowSettings, seen: Survey, running: Ask
) -> dict[str | None, list[Headers]]:
    """By topic, of those that the flow has begun to copy."""
    from mirror_ray.verification.headers import read_headers

    begun = {partition.topic for partition in seen.memory.partitions}
    topics = [pair.topic for pair in seen.pairs if pair.topic in begun and pair.remote is not None]
    found: dict[str | None, list[Headers]] = {}
    if topics:
        for source, each in asyncio.run(read_headers(settings, flow.name, topics, running)).items():
            found.setdefault(source.topic, []).append(each)
    return found
