"""The command compare."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirror_ray.cli.columns import offset
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, Format, FormatOption, NameOption
from mirror_ray.cli.output import Columns, Row, count, emit, out, say, size, table
from mirror_ray.cli.systems import ConfigOption, find_system, parse_flow
from mirror_ray.model.errors import MirrorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mirror_ray.config.settings import FlowSettings, MirrorSettings
    from mirror_ray.mirror import Mirror
    from mirror_ray.model.names import FlowName
    from mirror_ray.topics.comparing import Aspect, SideFacts, TopicComparison

_STYLES = {"equal": "green", "differs": "red", "unknown": "yellow", "extra": "yellow"}
_VERDICTS = {
    "same": "",
    "differs": "differs",
    "excluded": "excluded by config.properties.exclude",
    "allowed": "may differ: sync.topic.configs.policy",
    "own": "each side's own",
    "unsynced": "not kept the same: sync.topic.configs.enabled is false",
}
_DIFFERS, _UNKNOWN = "differs", "can't be compared"
_MARKED = {_DIFFERS: "red", _UNKNOWN: "yellow"}


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
    """Show a flow's topics on both sides: partitions, configs, sizes, offsets. Exit 1 when something has drifted.

    Sizes and offsets differ where nothing is wrong (retention, compression, lag): they are shown and not counted.
    """
    flow_name = parse_flow(flow)
    with find_system(config, name, address, flow_name) as (settings, mirror):
        chosen = settings.flow(flow_name)
        compared = _compare(settings, chosen, topics or (), reasons(mirror, flow_name))
    shown = [each for each in compared if not differences or each.state != "equal"]

    def show() -> None:
        for each in shown:
            _print(each, chosen, partitions=partitions, differences=differences)
        _print_sum(compared)

    drifted = any(each.drift for each in compared)
    emit({"flow": flow, "differs": drifted, "topics": [_plain(each) for each in shown]}, output, show)
    if drifted:
        raise typer.Exit(1)


def reasons(mirror: Mirror | None, flow: FlowName) -> dict[str, str]:
    """What a running system says of the topics that it does not copy."""
    try:
        told = mirror.topics(str(flow)) if mirror is not None else ()
    except MirrorError as error:
        say(f"{error}; going on without it", "yellow")
        told = ()
    return {each.topic: each.reason for each in told if each.reason}


def _compare(
    settings: MirrorSettings, flow: FlowSettings, topics: Collection[str], reasons: Mapping[str, str]
) -> list[TopicComparison]:
    from mirror_ray.topics.comparing import compare_topic
    from mirror_ray.topics.selection import config_filter
    from mirror_ray.topics.survey import survey

    pairs = asyncio.run(survey(settings, flow, topics, reasons))
    configs = config_filter(flow)
    return [compare_topic(each, configs, synced=flow.topics.sync_configs_enabled) for each in pairs]


def _print(topic: TopicComparison, flow: FlowSettings, *, partitions: bool, differences: bool) -> None:
    console, pair = out(), topic.pair
    console.print(f"{pair.topic or '(not copied)'} -> {pair.remote_topic}: {topic.state}", style=_STYLES[topic.state])
    if pair.remote is None:
        for text in topic.drift:
            console.print(f"  {text}", style="red", soft_wrap=True)
    rows = [row for row in _rows(topic) if not differences or row["mark"] in _MARKED]
    if rows:
        sheet = table(rows, _columns(flow))
        for row, line in zip(rows, sheet.rows, strict=True):
            line.style = _MARKED.get(row["mark"])
        console.print(sheet)
    if partitions:
        console.print(table(_partitions(topic), _partition_columns(flow)))
    console.print()


def _columns(flow: FlowSettings) -> Columns:
    return (
        ("", lambda row: row["what"]),
        (flow.name.source, lambda row: row["source"]),
        (flow.name.target, lambda row: row["remote"]),
        ("", lambda row: row["mark"]),
    )


def _partition_columns(flow: FlowSettings) -> Columns:
    def cells(alias: str, side: str) -> Columns:
        return (
            (f"{alias} START", lambda row: offset(row[side] and row[side]["start"])),
            (f"{alias} END", lambda row: offset(row[side] and row[side]["end"])),
            (f"{alias} SIZE", lambda row: size(row[side] and row[side]["size_bytes"])),
        )

    number: Columns = (("PARTITION", lambda row: str(row["partition"])),)
    return (*number, *cells(flow.name.source, "source"), *cells(flow.name.target, "remote"))


def _rows(topic: TopicComparison) -> list[Row]:
    """The lines of a topic's table: what, a cell for each side, and a mark."""
    pair = topic.pair

    def row(
        what: str, aspect: Aspect, read: Callable[[SideFacts], int | None], show: Callable[[int | None], str]
    ) -> Row:
        cells = [_cell(side, aspect, read, show) for side in (pair.source, pair.remote)]
        return {"what": what, "source": cells[0], "remote": cells[1], "mark": ""}

    rows = [
        row("partitions", "topic", lambda side: len(side.partitions), count),
        row("replication factor", "topic", lambda side: side.replication_factor, count),
        row("size", "size", lambda side: side.size_bytes, size),
        row("offsets (end - start)", "offsets", lambda side: side.offsets, count),
    ]
    rows[0] = {**rows[0], "mark": _DIFFERS if topic.partitions_differ else ""}
    if topic.state == "unknown":
        known = row("configs", "configs", lambda side: None if side.configs is None else len(side.configs), count)
        rows.append({**known, "mark": _UNKNOWN})
    rows += [
        {
            "what": each.key,
            "source": "-" if each.source is None else each.source,
            "remote": "-" if each.remote is None else each.remote,
            "mark": _VERDICTS[each.verdict],
        }
        for each in topic.configs
    ]
    return rows


def _cell(
    side: SideFacts | None,
    aspect: Aspect,
    read: Callable[[SideFacts], int | None],
    show: Callable[[int | None], str],
) -> str:
    """What could not be read says why."""
    if side is None:
        return "-"
    return side.problems.get("topic") or side.problems.get(aspect) or show(read(side))


def _print_sum(compared: Sequence[TopicComparison]) -> None:
    states = Counter(each.state for each in compared)
    out().print(f"topics: {', '.join(f'{number} {state}' for state, number in sorted(states.items())) or 'none'}")


def _plain(topic: TopicComparison) -> dict[str, Any]:
    pair = topic.pair
    return {
        "topic": pair.topic,
        "remote_topic": pair.remote_topic,
        "state": topic.state,
        "drift": list(topic.drift),
        "reason": pair.reason,
        "source": _plain_side(pair.source),
        "remote": _plain_side(pair.remote),
        "configs": [asdict(each) for each in topic.configs],
        "partitions": _partitions(topic),
    }


def _plain_side(side: SideFacts | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "partitions": len(side.partitions),
        "replication_factor": side.replication_factor,
        "size_bytes": side.size_bytes,
        "offsets": side.offsets,
        "problems": dict(side.problems),
    }


def _partitions(topic: TopicComparison) -> list[Row]:
    return [
        {
            "partition": number,
            "source": _partition(topic.pair.source, number),
            "remote": _partition(topic.pair.remote, number),
        }
        for number in topic.partitions
    ]


def _partition(side: SideFacts | None, number: int) -> dict[str, Any] | None:
    found = side.partitions.get(number) if side is not None else None
    return asdict(found) if found is not None else None
