"""The report of a real flow, against independent counts of the target's records and bytes; in parts, and killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirror_ray.model.internal_topics import statistics_topic
from mirror_ray.records.statistics import LATENCY_BOUNDS_MS
from mirror_ray.report.directory import ReportDirectory, open_directory
from mirror_ray.report.figures import percentile
from mirror_ray.report.json_document import ReportRequest, ReportResult, make_document
from mirror_ray.report.target_cluster import read_ends, read_skipped_ranges
from mirror_ray.spark.report import read_new, select
from tests.support.clusters import Clusters
from tests.support.copied_flow import CopiedFlow, copy_with_kill
from tests.support.kafka import Message, create_topic, produce
from tests.support.statistics import partition_statistics
from tests.support.systems import settings_of

pytestmark = pytest.mark.timeout(600)

_EVERYTHING = ReportRequest(since_ms=None, until_ms=None, price_per_gb=0.02, currency="USD", created_ms=0)


@pytest.fixture(scope="module")
def copied(clusters: Clusters, ray_session: None) -> CopiedFlow:
    """Topics of several codecs and of transactions, copied with a replicator killed in between."""
    return copy_with_kill(clusters)


def read(spark: SparkSession, copied: CopiedFlow, directory: ReportDirectory, share: float = 1.0) -> None:
    """Read that share of the topic."""
    log = copied.log()
    bounds = {number: (start, start + int((end - start) * share)) for number, (start, end) in log.bounds.items()}
    read_new(spark, copied.settings.clusters["B"], log.topic_id, bounds, directory)


def document(
    spark: SparkSession, copied: CopiedFlow, directory: ReportDirectory, asked: ReportRequest = _EVERYTHING
) -> dict[str, Any]:
    """The figures."""
    cluster = copied.settings.clusters["B"]
    selection = select(spark, directory, asked.since_ms, asked.until_ms)
    found = ReportResult(
        progress=directory.progress,
        partitions=selection.partitions,
        steps=selection.steps,
        step_ms=selection.step_ms,
        gaps=read_skipped_ranges(cluster, copied.settings.flows[0]),
        target_ends=read_ends(cluster, selection.partitions),
    )
    return make_document(asked, found)


def figures(made: Mapping[str, Any]) -> dict[str, Any]:
    """Without what tells one run from several."""
    return {key: value for key, value in made.items() if key != "sources"}


def hours(spark: SparkSession, directory: ReportDirectory) -> list[dict[str, Any]]:
    """The aggregates by hour."""
    table = spark.read.parquet(str(directory.path / "hours"))
    return [row.asDict() for row in table.orderBy("hour_ms", "topic", "partition").collect()]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, copied: CopiedFlow, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Read at once: the figures, and the hours."""
    with open_directory(tmp_path_factory.mktemp("whole"), copied.flow, copied.topic) as directory:
        read(spark, copied, directory)
        return document(spark, copied, directory), hours(spark, directory)


@pytest.fixture(scope="module")
def half(spark: SparkSession, copied: CopiedFlow, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report's directory of a first run that has read half of the topic."""
    path = tmp_path_factory.mktemp("half")
    with open_directory(path, copied.flow, copied.topic) as directory:
        read(spark, copied, directory, 0.5)
    return path


def test_sums_are_what_the_target_holds(copied: CopiedFlow, whole: tuple[Any, Any]) -> None:
    """Records exactly, with those that a killed replicator had not copied of; bytes exactly where it copied of all."""
    made, _ = whole
    truth = copied.truth()
    rows = {(row["topic"], row["partition"]): row for row in made["partitions"]}
    assert rows.keys() == truth.keys()
    for place, (records, log_bytes) in truth.items():
        row = rows[place]
        assert row["first_target_offset"] == 0
        assert row["records"] == records == row["target_end"], place
        if row["untold_records"] == 0:
            assert row["wire_bytes"] == log_bytes, place
        else:
            assert row["told_wire_bytes"] < log_bytes
            assert row["wire_bytes"] == pytest.approx(log_bytes, rel=0.25)
    assert made["total"]["untold_records"] > 0
    assert made["total"]["records"] == sum(records for records, _ in truth.values())
    assert made["total"]["offset_mismatches"] == 0
    check = made["check"]
    assert check["before_first"] + check["told"] + check["untold"] + check["not_told_yet"] == check["target_ends"]
    assert (check["not_told_yet"], check["partitions"]) == (0, len(truth))
    assert made["gaps"] == []


def test_what_is_uncompressed_is_measured(copied: CopiedFlow, whole: tuple[Any, Any]) -> None:
    """Without a codec the estimate is the size itself; with one it is more."""
    topics = {row["topic"]: row for row in whole[0]["topics"]}
    zstd, none, _ = copied.topics
    assert topics[none]["uncompressed_bytes_estimated"] == topics[none]["wire_bytes"]
    assert topics[zstd]["compression_ratio_estimated"] > 2
    assert topics[zstd]["codecs"] == ["zstd"]


def test_hours_and_steps_add_up_to_the_whole(whole: tuple[Any, Any]) -> None:
    """Sums, and percentiles as they are computed elsewhere."""
    made, by_hour = whole
    for name in ("records", "wire_bytes", "untold_records", "batches"):
        expected = made["total"]["told_" + name] if name in {"records", "wire_bytes"} else made["total"][name]
        assert sum(row[name] for row in by_hour) == expected
    assert sum(step["told_records"] for step in made["steps"]) == made["total"]["told_records"]
    for row in by_hour:
        for name in ("latency_ms", "lag_ms", "lag_records"):
            for percent in (50, 95, 99):
                assert row[f"{name}_p{percent}"] == percentile(row[name] or {}, percent)


def test_in_parts_it_is_the_same(
    spark: SparkSession, copied: CopiedFlow, whole: tuple[Any, Any], half: Path, tmp_path: Path
) -> None:
    """Each run reads what is new, and the last one finds nothing to read."""
    copytree(half, tmp_path, dirs_exist_ok=True)
    for _ in range(2):
        with open_directory(tmp_path, copied.flow, copied.topic) as directory:
            read(spark, copied, directory)
            files = len(directory.progress.files)
    with open_directory(tmp_path, copied.flow, copied.topic) as directory:
        assert len(directory.progress.files) == files > 1
        assert figures(document(spark, copied, directory)) == figures(whole[0])
        assert hours(spark, directory) == whole[1]


class _KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("at", ["before the state", "before the hours", "after the hours"])
def test_killed_in_the_middle_nothing_is_doubled(
    spark: SparkSession,
    copied: CopiedFlow,
    whole: tuple[Any, Any],
    half: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
) -> None:
    """The next run makes up for it, whatever was written."""

    def kill(*_: object) -> None:
        raise _KilledError

    copytree(half, tmp_path, dirs_exist_ok=True)
    with open_directory(tmp_path, copied.flow, copied.topic) as directory:
        if at == "before the state":
            monkeypatch.setattr(directory, "save", kill)
        else:
            adopt = directory.adopt_hours

            def adopt_and_die(staged: Path) -> None:
                adopt(staged)
                kill()

            monkeypatch.setattr(directory, "adopt_hours", kill if at == "before the hours" else adopt_and_die)
        with pytest.raises(_KilledError):
            read(spark, copied, directory)
    with open_directory(tmp_path, copied.flow, copied.topic) as directory:
        read(spark, copied, directory)
        assert figures(document(spark, copied, directory)) == figures(whole[0])
        assert hours(spark, directory) == whole[1]


def test_a_part_of_the_time(spark: SparkSession, copied: CopiedFlow, whole: tuple[Any, Any], tmp_path: Path) -> None:
    """What begins before a moment and what begins from it on make up all; before everything there is nothing."""
    middle_ms = (whole[0]["from_ms"] + whole[0]["to_ms"]) // 2
    parts = [
        ReportRequest(since_ms=since, until_ms=until, price_per_gb=1.0, currency="EUR", created_ms=0)
        for since, until in ((None, middle_ms), (middle_ms, None), (None, 1000))
    ]
    with open_directory(tmp_path, copied.flow, copied.topic) as directory:
        read(spark, copied, directory)
        one, two, nothing = (document(spark, copied, directory, asked)["total"] for asked in parts)
    for name in ("told_records", "untold_records", "told_wire_bytes", "batches", "restarts", "statistics_records"):
        assert one[name] + two[name] == whole[0]["total"][name]
    assert one["told_records"] > 0 < two["told_records"]
    assert nothing["statistics_records"] == 0


def test_records_of_no_use_are_counted_and_shown(
    spark: SparkSession, clusters: Clusters, unique_topic: str, tmp_path: Path
) -> None:
    """Not JSON, of another version or flow, incomplete or impossible: none is in a sum, none ends the report."""
    source = f"s{unique_topic[-6:]}"
    config = clusters.b.confluent_config()
    topic = create_topic(config, statistics_topic(source))
    good = partition_statistics(
        flow=f"{source}->B",
        from_ms=1_790_000_000_000,
        to_ms=1_790_000_060_000,
        latency_ms={10: 9, LATENCY_BOUNDS_MS[-1]: 1},
    )
    value = good.encode()[1]
    bad: dict[str, list[bytes | None]] = {
        "not_json": [b"", None, b"{", b"\xff\xfe", b"[1]", b"7"],
        "other_version": [b"{}", value.replace(b'"version":1', b'"version":2')],
        "other_flow": [partition_statistics(flow="X->Y").encode()[1]],
        "malformed": [
            b'{"version":1}',
            value.replace(b'"records":10', b'"records":"ten"'),
            value.replace(b'"records":10', b'"records":-1'),
            value.replace(b'"latency_ms":{"10"', b'"latency_ms":{"ten"'),
            value.replace(b'"latency_ms":{"10"', b'"latency_ms":{"010":1,"10"'),
            value.replace(b'"latency_ms":{"10"', b'"latency_ms":{"10":1,"10"'),
            value.replace(b'"wire_bytes":1000', b'"wire_bytes":9223372036854775807'),
            value.replace(b'"to_ms":1790000060000', b'"to_ms":1'),
        ],
    }
    values = [value, *(broken for kind in bad.values() for broken in kind), value.replace(b'{"', b'{"more":[1],"', 1)]
    produce(config, topic, [Message(one) for one in values])
    settings = settings_of({source: clusters.a, "B": clusters.b}, f"{source}->B", topics=unique_topic)
    copied = CopiedFlow(settings=settings, source=source, topics=(), target=clusters.b)
    with open_directory(tmp_path, copied.flow, copied.topic) as directory:
        read(spark, copied, directory)
        made = document(spark, copied, directory)
    assert made["sources"]["unusable"] == {kind: len(broken) for kind, broken in sorted(bad.items())}
    assert [example["offset"] for example in made["sources"]["unusable_examples"]] == list(range(1, 11))
    assert made["total"]["told_records"] == 10
    spread = made["total"]["latency_ms"]
    assert (spread["p50"], spread["p95"], spread["max"]) == (10, LATENCY_BOUNDS_MS[-1], LATENCY_BOUNDS_MS[-1])
    assert made["total"]["statistics_told_twice"] == 1
    assert made["gaps"] is None
    # A minute that reaches over a full one: within steps of five, and not copied as ten seconds.
    assert (made["step_ms"], made["peak"]["records_per_s"]) == (300_000, 10 / 60)
