"""Shows a comparison of a flow's topics, both sides side by side: as a table, and for programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mirror_ray.cli.columns import offset
from mirror_ray.cli.output import Columns, Row, column, count, out, size, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mirror_ray.config.settings import FlowSettings
    from mirror_ray.model.acls import Acl
    from mirror_ray.topics.acl_comparison import AclPair
    from mirror_ray.topics.comparison import Aspect, ComparedTopic, FlowComparison, SideFacts, TopicComparison
    from mirror_ray.verification.report import BatchHeaders

_STYLES = {"equal": "green", "differs": "red", "unknown": "yellow", "extra": "yellow"}
_VERDICTS = {
    "same": "",
    "differs": "differs",
    "excluded": "excluded by config.properties.exclude",
    "allowed": "may differ: sync.topic.configs.policy",
    "own": "each side's own",
    "unsynced": "not kept the same: sync.topic.configs.enabled is false",
}
_NOT_READ = "records not read"
_DIFFERS, _UNKNOWN, _STALE = "differs", "can't be compared", "the source no longer gives it"
_MARKED = {_DIFFERS: "red", _STALE: "red", _UNKNOWN: "yellow"}
_ACL_VERDICTS = {
    "same": "",
    "missing": _DIFFERS,
    "stale": _STALE,
    "unsynced": "not kept the same: sync.topic.acls.enabled is false",
    "kept": "may stay: sync.topic.acls.revocations.enabled is false",
    "write": "only the flow writes remote topics",
    "pattern": "not copied: sync.topic.acls.patterns.enabled is false",
    "merged": "not given by every topic that is copied there",
    "own": "the target's own",
}


def plain_comparison(compared: FlowComparison, shown: Sequence[TopicComparison]) -> dict[str, Any]:
    """Make the answer for programs, with the topics in ``shown``."""
    return {
        "differs": compared.drifted,
        "topics": [_plain(topic) for topic in shown],
        "other_acls": [asdict(other_acl) for other_acl in compared.other_acls],
        "acls_not_compared": compared.acls_not_compared,
        "notes": list(compared.notes),
    }


def print_comparison(
    compared: FlowComparison,
    shown: Sequence[TopicComparison],
    flow: FlowSettings,
    *,
    partitions: bool,
    differences: bool,
) -> None:
    """Print for people; ``partitions``: every one; ``differences``: only rows that differ or can't be compared."""
    for topic in shown:
        _print(topic, flow, partitions=partitions, differences=differences)
    _print_other_acls(compared.other_acls, flow, differences=differences)
    _print_totals(compared)


def _print(topic: TopicComparison, flow: FlowSettings, *, partitions: bool, differences: bool) -> None:
    console, pair = out(), topic.pair
    read = f", {_NOT_READ}" if topic.state == "equal" else ""
    title = f"{pair.topic or '(not copied)'} -> {pair.remote_topic}: {topic.state}{read}"
    console.print(title, style=_STYLES[topic.state])
    if pair.remote is None or pair.name_before is not None:
        for text in topic.drift:
            console.print(f"  {text}", style="red", soft_wrap=True)
    for text in (text for headers in topic.headers.values() for text in headers.drift):
        console.print(f"  {text}", style="red", soft_wrap=True)
    rows = [row for row in _rows(topic) if not differences or row["mark"] in _MARKED]
    if rows:
        _print_rows(rows, flow)
    if partitions:
        console.print(table(_partitions(topic), _partition_columns(flow)))
    console.print()


def _print_other_acls(acls: Sequence[AclPair], flow: FlowSettings, *, differences: bool) -> None:
    rows: list[Row] = [
        {**row, "what": f"{row['what']} on {on.resource.lower()} {on.name}"}
        for pair in acls
        if (on := pair.expected or pair.remote) is not None
        for row in (_acl_row(pair, on.name, on.name),)
        if not differences or row["mark"] in _MARKED
    ]
    if rows:
        out().print("ACLs of groups, and of topics that do not exist yet")
        _print_rows(rows, flow)
        out().print()


def _print_rows(rows: Sequence[Row], flow: FlowSettings) -> None:
    sides = column(flow.name.source, "source"), column(flow.name.target, "remote")
    sheet = table(rows, (column("", "what"), *sides, column("", "mark")))
    for row, line in zip(rows, sheet.rows, strict=True):
        line.style = _MARKED.get(row["mark"])
    out().print(sheet)


def _partition_columns(flow: FlowSettings) -> Columns:
    def cells(alias: str, side: str) -> Columns:
        return (
            (f"{alias} START", lambda row: offset(row[side] and row[side]["start"])),
            (f"{alias} END", lambda row: offset(row[side] and row[side]["end"])),
            (f"{alias} SIZE", lambda row: size(row[side] and row[side]["size_bytes"])),
        )

    number: Columns = (column("PARTITION", "partition"),)
    return (*number, *cells(flow.name.source, "source"), *cells(flow.name.target, "remote"))


def _rows(topic: TopicComparison) -> list[Row]:
    """The rows of a topic's table: what is compared, a cell for each side, and a mark."""
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
    if pair.topic is not None:
        rows.insert(0, _name_row(pair))
    if topic.headers:
        rows.append(_records_row(topic))
    if any(side is not None and side.configs is None for side in (pair.source, pair.remote)):
        known = row("configs", "configs", lambda side: None if side.configs is None else len(side.configs), count)
        rows.append({**known, "mark": _UNKNOWN})
    rows += [
        {
            "what": config.key,
            "source": "-" if config.source is None else config.source,
            "remote": "-" if config.remote is None else config.remote,
            "mark": _VERDICTS[config.verdict],
        }
        for config in topic.configs
    ]
    rows += [_acl_row(acl, pair.topic, pair.remote_topic) for acl in topic.acls]
    return rows


def _records_row(topic: TopicComparison) -> Row:
    """The row about records: how many are not copied yet, and how many are not this flow's."""
    accounts = [headers.account for headers in topic.headers.values()]
    others = sum(account.foreign + account.not_ours for account in accounts)
    return {
        "what": "records",
        "source": f"{count(sum(account.not_copied for account in accounts))} offsets not copied yet",
        "remote": f"{count(others)} not by this flow",
        "mark": _NOT_READ,
    }


def _name_row(pair: ComparedTopic) -> Row:
    from mirror_ray.config.topic_merging import NAMED_BY

    beside = f", as {', '.join(pair.beside)} is" if pair.beside else ""
    mark = _DIFFERS if pair.name_before is not None else f"by {NAMED_BY[pair.named_by]}{beside}"
    return {"what": "name", "source": pair.topic, "remote": pair.name_before or pair.remote_topic, "mark": mark}


def _acl_row(pair: AclPair, topic: str | None, remote: str) -> Row:
    """The row of one ACL; a name other than ``topic`` and ``remote`` is shown."""

    def cell(acl: Acl | None, name: str | None) -> str:
        if acl is None:
            return "-"
        on = "" if acl.name == name else f" on {acl.name}{'' if acl.pattern == 'LITERAL' else '...'}"
        return f"{acl.permission} {acl.operation}{on}{'' if acl.host == '*' else f' from {acl.host}'}"

    who = next(acl.principal for acl in (pair.source, pair.expected, pair.remote) if acl is not None)
    return {
        "what": f"ACL {who}",
        "source": cell(pair.source, topic),
        "remote": cell(pair.remote, remote),
        "mark": _ACL_VERDICTS[pair.verdict],
    }


def _cell(
    side: SideFacts | None, aspect: Aspect, read: Callable[[SideFacts], int | None], show: Callable[[int | None], str]
) -> str:
    """The cell of one side; if it could not be read, why."""
    if side is None:
        return "-"
    return side.problems.get("topic") or side.problems.get(aspect) or show(read(side))


def _print_totals(compared: FlowComparison) -> None:
    states = Counter(topic.state for topic in compared.topics)
    out().print(f"topics: {', '.join(f'{number} {state}' for state, number in sorted(states.items())) or 'none'}")
    out().print("records were not read: `mirror-ray verify` compares them", soft_wrap=True)
    if compared.acls_not_compared is not None:
        out().print(f"ACLs are not compared: {compared.acls_not_compared}", soft_wrap=True)
    for text in compared.notes:
        out().print(text, style="yellow", soft_wrap=True)


def _plain(topic: TopicComparison) -> dict[str, Any]:
    pair = topic.pair
    return {
        "topic": pair.topic,
        "remote_topic": pair.remote_topic,
        "state": topic.state,
        "drift": list(topic.drift),
        "reason": pair.reason,
        "named_by": pair.named_by if pair.topic is not None else None,
        "beside": list(pair.beside),
        "copied_into": pair.copied_into,
        "source": _plain_side(pair.source),
        "remote": _plain_side(pair.remote),
        "configs": [asdict(config) for config in topic.configs],
        "acls": [asdict(acl) for acl in topic.acls],
        "records_read": False,
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
            "copied": _copied(topic.headers.get(number)),
        }
        for number in topic.partitions
    ]


def _copied(headers: BatchHeaders | None) -> dict[str, Any] | None:
    if headers is None:
        return None
    halt = headers.halt
    return {
        "not_copied": headers.account.not_copied,
        "in_flight": headers.account.in_flight,
        "foreign": headers.account.foreign,
        "not_ours": headers.account.not_ours,
        "halted": halt.state if halt is not None else None,
        "halted_reason": halt.reason if halt is not None else None,
        "first": str(headers.differences[0]) if headers.differences else None,
    }


def _partition(side: SideFacts | None, number: int) -> dict[str, Any] | None:
    found = side.partitions.get(number) if side is not None else None
    return asdict(found) if found is not None else None
