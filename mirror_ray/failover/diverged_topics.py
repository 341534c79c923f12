"""What is reported of topics that are to be reversed: what only the source has of them, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mirror_ray.failover.messages import NAMED, names
from mirror_ray.model.names import FlowName
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.reversal.cut import DIVERGED_POLICIES, PartitionCut
from mirror_ray.reversal.reverse import Reversal, ReversedTopic

#: Bytes of a key or a value that are shown.
_SHOWN_BYTES: Final = 100


def described(found: Sequence[ReversedTopic], flow: FlowName, asked: Reversal) -> tuple[str, dict[str, Any]]:
    """A text, and figures: topics by what becomes of them, and partitions that have diverged."""
    diverged = [topic for topic in found if topic.cut.diverged]
    figures: dict[str, Any] = {
        "topics": {topic.cut.topic: topic.plan for topic in found[:NAMED]},
        "diverged": [_partition(cut) for topic in diverged for cut in topic.cut.partitions if not cut.in_place][:NAMED],
    }
    if not diverged:
        return f"{len(found)} topics go on where they were left", figures
    alias, other = flow.source, flow.target
    records = sum(cut.diverged.count for topic in diverged for cut in topic.cut.partitions)
    least = "at least " if any(not topic.cut.counted for topic in diverged) else ""
    listed = names([topic.cut.topic for topic in diverged])
    text = f"{alias} has {least}{records} records that {other} never got, in {listed}"
    for topic in diverged:
        for cut in topic.cut.partitions:
            text += f"\n  {_line(cut)}" if not cut.in_place else ""
        text += f"\n  {topic.cut.replaced}" if topic.cut.replaced else ""
        text += "".join(f"\n  {partition}: it has no copy at all" for partition in topic.cut.only_on_source)
    undecided = [topic for topic in diverged if topic.plan == "undecided"]
    if undecided:
        return text + _choices(undecided, alias, other), figures
    if asked.export is not None:
        text += f"\nThese records are copied to {asked.export.where} first."
    for topic in diverged:
        done = f"is deleted on {alias} and copied anew from {other}" if topic.plan == "recreate" else "keeps them"
        text += f"\n{topic.cut.topic} {done}."
    return text, figures


def _choices(undecided: Sequence[ReversedTopic], alias: str, other: str) -> str:
    text = (
        f"\nChoose for each topic, or for all: --diverged recreate (the topic is deleted on {alias}, and copied anew"
        f" from {other}), or --diverged append (they stay, and what was written on {other} comes behind them; groups"
        " that have read that pass them over, and offsets are not preserved any more). --export-diverged copies them"
        " first"
    )
    for topic in undecided:
        for policy in DIVERGED_POLICIES:
            if (why := topic.cut.why_not(policy)) is not None:
                text += f"\n{topic.cut.topic}: {policy} is impossible: {why}"
    return text


def _line(cut: PartitionCut) -> str:
    where = str(cut.source)
    if cut.pair is None:
        return f"{where}: {cut.why}"
    if cut.lost:
        return f"{where}: it ends at {cut.source_end}, and was copied up to {cut.pair.source_offset}"
    found = cut.diverged
    if found.first is None or found.last is None:
        return f"{where}: no records; it ends at {cut.source_end}, the copy at {cut.pair.target_offset}"
    first, last = _shown(found.first), _shown(found.last)
    return f"{where}: {found.count} records, first {first}, last {last}"


def _shown(record: DecodedRecord) -> str:
    key, _, _ = record.fields()
    named = "" if key is None else f" key {key[:_SHOWN_BYTES].decode(errors='replace')!r}"
    return f"offset {record.offset} ({record.timestamp} ms){named}"


def _partition(cut: PartitionCut) -> dict[str, Any]:
    found = cut.diverged
    return {
        "partition": str(cut.source),
        "cut": None if cut.pair is None else [cut.pair.source_offset, cut.pair.target_offset],
        "source_end": cut.source_end,
        "records": found.count,
        "oldest_ms": found.oldest_ms,
        "newest_ms": found.newest_ms,
        "first": _record(found.first),
        "last": _record(found.last),
        "why": cut.why or cut.why_no_append,
    }


def _record(record: DecodedRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    key, value, _ = record.fields()
    texts = (None if part is None else part[:_SHOWN_BYTES].decode(errors="replace") for part in (key, value))
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **dict(zip(("key", "value"), texts, strict=True)),
    }
