"""The command compare: a flow's topics on both sides, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray.cli.comparison_table import plain_comparison, print_comparison
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat, TopicsArgument
from mirror_ray.cli.output import emit, say
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow
from mirror_ray.cli.verify import partition_query
from mirror_ray.model.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_ray.mirror import Mirror
    from mirror_ray.model.names import FlowName
    from mirror_ray.observe.status import TopicStatus


def compare(
    flow: RequiredFlow,
    topics: TopicsArgument = None,
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
    from mirror_ray.topics.flow_comparison import compare_flow

    flow_name = parse_flow(flow)
    with find_system(config, name, address, flow_name) as (settings, mirror):
        chosen = settings.flow(flow_name)
        statuses = _topic_statuses(mirror, flow_name)
        refused = {status.topic for status in statuses if status.state == "refused"}
        ask = partition_query(mirror, flow_name)
        compared = compare_flow(settings, chosen, topics or (), _reasons(statuses), ask, refused=refused)
    shown = [topic for topic in compared.topics if not differences or topic.state != "equal"]
    emit(
        {"flow": flow, **plain_comparison(compared, shown)},
        output,
        lambda: print_comparison(compared, shown, chosen, partitions=partitions, differences=differences),
    )
    if compared.drifted or not compared.headers_known:
        raise typer.Exit(1)


def reasons(mirror: Mirror | None, flow: FlowName) -> dict[str, str]:
    """Why the running system does not copy topics, by topic."""
    return _reasons(_topic_statuses(mirror, flow))


def _topic_statuses(mirror: Mirror | None, flow: FlowName) -> Sequence[TopicStatus]:
    try:
        found = mirror.topics(str(flow)) if mirror is not None else ()
    except MirrorError as error:
        say(f"{error}; going on without it", "yellow")
        found = ()
    return [status for status in found if status.flow == str(flow)]


def _reasons(statuses: Sequence[TopicStatus]) -> dict[str, str]:
    return {status.topic: status.reason for status in statuses if status.reason}
