"""A report in words: its headline, and how each of its figures is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirror_ray.report.number_format import (
    lasting,
    moment,
    money,
    number,
    per_second,
    plural,
    ratio,
    share,
    short,
    size,
)

Document = Mapping[str, Any]


def headline(document: Document) -> list[str]:
    """The report in a few sentences."""
    total, cost, peak = document["total"], document["cost"], document["peak"]
    if not total["statistics_records"]:
        return ["Nothing was copied in this time, or there are no statistics of it."]
    length_ms = document["to_ms"] - document["from_ms"]
    currency = cost["currency"]
    copied = (
        f"In {lasting(length_ms)} {document['flow']} copied {short(total['records'])} records of"
        f" {plural(len(document['topics']), 'topic')}, {size(total['wire_bytes'])} on the wire:"
        f" {short(total['records_per_s'])} records and {per_second(total['wire_bytes_per_s'])} on average,"
        f" and {short(peak['records_per_s'])} records/s at the peak ({moment(peak['step_ms'])} UTC)."
    )
    sentences = [copied]
    if total["compression_ratio_estimated"] is not None:
        sentences.append(
            f"Uncompressed it would have been {ratio(total['compression_ratio_estimated'])} as much: at"
            f" {cost['price_per_gb']:g} {currency} for a GB, a terabyte of records costs about"
            f" {money(cost['terabyte_compressed_estimated'], currency)} instead of"
            f" {money(cost['terabyte_uncompressed'], currency)}; a month at this rate"
            f" {money(cost['month_at_this_rate'], currency)}."
        )
    if total["latency_ms"]["p99"] is not None:
        sentences.append(
            f"Half of the records were on the target within {lasting(total['latency_ms']['p50'])},"
            f" 99 of 100 within {lasting(total['latency_ms']['p99'])}."
        )
    lag = document["worst_lag"]
    if lag and lag["records"]:
        sentences.append(f"The largest lag of a partition is {plural(lag['records'], 'record')}: {lag['place']}.")
    elif lag:
        sentences.append("No partition had a lag.")
    return sentences


def explained(document: Document) -> dict[str, str]:
    """The meaning of each figure, whether it is exact, and what is missing."""
    total, cost = document["total"], document["cost"]
    measured = share(total["uncompressed_measured_share"])
    return {
        "Where they come from": (
            "Replicators publish, for each partition and interval in which it did something, what the target"
            " acknowledged. An interval belongs to the time in which it began. All times are UTC. An idle partition"
            " publishes nothing."
        ),
        "Records, batches, bytes on the wire": (
            "Exact: counted at the target's acknowledgements. Bytes are those of record batches as the target's log"
            " holds them, headers included; requests' own headers, TLS and the target's own replication are not in"
            " them. Rates are means over the time shown, or over a chart's point."
        ),
        "Untold": _untold(document),
        "Uncompressed bytes, ratio": (
            f"Estimated: each interval measures some of its batches ({measured} of all bytes), and the others are"
            " assumed to have the same ratio."
        ),
        "Cost": (
            f"Bytes on the wire times {cost['price_per_gb']:g} {cost['currency']} for a GB of 1,000,000,000 bytes"
            " (--price-per-gb); uncompressed: the same for the estimated bytes. A month has 30 days."
        ),
        "Latency": (
            "From a batch's newest timestamp, which its producer sets, to the acknowledgement, counted for each of its"
            " records in classes that grow by a third: a percentile is its class's upper bound, so the true one is at"
            " most that. Clocks that differ shift it, and records that were old when they were produced or copied count"
            " as late."
        ),
        "Lag": (
            "Records and time that a partition is behind, one sample at the end of each of its intervals, percentiles"
            " over these samples by the same classes; the largest is the largest that was seen at any time."
        ),
        "Skipped ranges, restarts": (
            "Skipped ranges are source offsets that were given up by a fault policy or an operator's resolution, from"
            " the flow's state on the target. A restart is a copy that recovered its position after an error or a lost"
            " connection."
        ),
        "Compared with the target": _compared(document),
        "Missing": _missing(document),
    }


def _untold(document: Document) -> str:
    total, deleted = document["total"], document["sources"]["deleted_days"]
    text = (
        f"{plural(total['untold_records'], 'record')} of replicators that were killed before they published statistics."
        " They show as gaps between the target offsets of one interval and the next, and are counted exactly, where"
        " nobody else writes to the topic; they count at the interval after the gap. Their"
        f" {size(total['untold_bytes_estimated'])} are estimated by the partition's mean. Both are in the sums, not"
        " in latency and lag. Statistics that retention deleted before a report read them show in the same way."
    )
    if not deleted:
        return text
    return f"{text} So do the days whose files were deleted here while older ones were kept: {', '.join(deleted)}."


def _compared(document: Document) -> str:
    check, total = document["check"], document["total"]
    wrong = total["offset_mismatches"]
    how = f"it is not so in {plural(wrong, 'interval')}" if wrong else "so it is in every interval"
    text = (
        "In topics that nobody else writes to, an interval has as many records as the target's offsets advanced by:"
        f" {how}."
    )
    if check is None:
        return f"{text} The ends of the target's logs are compared only where the report shows all of the time."
    found = check["before_first"] + check["told"] + check["untold"] + check["not_told_yet"]
    return (
        f"{text} The ends of {plural(check['partitions'], 'log')} of the target add up to"
        f" {number(check['target_ends'])}:"
        f" {number(check['before_first'])} before the first statistics, {number(check['told'])} told,"
        f" {number(check['untold'])} untold, {number(check['not_told_yet'])} without statistics yet;"
        f" together {number(found)}{', as it has to be' if found == check['target_ends'] else ': THEY DIFFER'}."
    )


def _missing(document: Document) -> str:
    sources, total = document["sources"], document["total"]
    missed = sum(log["missed"] for log in sources["logs"])
    unusable = sum(sources["unusable"].values())
    sentences = [
        f"{plural(missed, 'statistics record')} deleted by retention before a report read them."
        if missed
        else "No statistics were deleted before a report read them.",
        f"{plural(unusable, 'record')} of the topic could not be used, see below."
        if unusable
        else "Every record of the topic could be used.",
    ]
    if again := sum(log["went_back"] > 0 for log in sources["logs"]):
        sentences.append(
            f"{plural(again, 'time')} the topic's log ended before what had been read of it, and was read again from"
            " its start: it was truncated, or the topic was created again on a target without topic ids. What was in"
            " it and was not read is missing."
        )
    if total["statistics_told_twice"]:
        sentences.append(f"{plural(total['statistics_told_twice'], 'interval')} occurred twice, counted once.")
    return " ".join(sentences)
