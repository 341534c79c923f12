"""The report of a real flow, against independent counts of the target's records and bytes; in parts, and killed."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirror_ray.config.settings import MirrorSettings, StatisticsSettings, TopicSettings
from mirror_ray.mirror import Mirror
from mirror_ray.model.internal_topics import statistics_topic
from mirror_ray.records.statistics import LATENCY_BOUNDS_MS
from mirror_ray.report.directory import ReportDirectory, open_directory
from mirror_ray.report.figures import percentile
from mirror_ray.report.json_document import ReportRequest, ReportResult, make_document
from mirror_ray.report.target_cluster import StatisticsLog, find_statistics, read_ends, read_skipped_ranges
from mirror_ray.spark.report import read_new, select
from tests.support.clusters import Clusters
from tests.support.engine import logged_batches
from tests.support.kafka import (
    ConfluentConfig,
    Message,
    create_topic,
    produce,
    produce_transactions,
    read_all,
    sample_messages,
)
from tests.support.statistics import partition_statistics
from tests.support.systems import run, settings_of, wait_caught_up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

_INTERVAL_S = 10
_PARTITIONS = 2
_EVERYTHING = ReportRequest(since_ms=None, until_ms=None, price_per_gb=0.02, currency="USD", created_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A flow that has copied, lost a replicator, and was stopped."""

    settings: MirrorSettings
    source: str
    topics: tuple[str, ...]
    target: Any

    @property
    def flow(self) -> str:
        """Its name."""
        return f"{self.source}->B"

    @property
    def topic(self) -> str:
        """Its statistics topic."""
        return statistics_topic(self.source)

    def log(self) -> StatisticsLog:
        """That topic as it is now."""
        return find_statistics(self.settings.clusters["B"], self.settings.flows[0])

    def truth(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Records as Kafka's own client counts them, and bytes of the log's files, by source topic and partition."""
        found = {}
        for topic in self.topics:
            remote = f"{self.source}.{topic}"
            for partition, records in read_all(self.target.confluent_config(), remote).items():
                batches = logged_batches(self.target.brokers[0], remote, partition)
                found[topic, partition] = (len(records), sum(len(batch.view) for batch in batches))
        return found


@pytest.fixture(scope="module")
def told(clusters: Clusters, ray_session: None) -> Told:
    """Topics of several codecs and of transactions, copied with a replicator killed in between."""
    mark = f"s{uuid.uuid4().hex[:6]}"
    config = clusters.a.confluent_config()
    topics = tuple(create_topic(config, f"{mark}-{kind}", _PARTITIONS) for kind in ("zstd", "none", "transactions"))
    settings = settings_of(
        {mark: clusters.a, "B": clusters.b},
        f"{mark}->B",
        topics=TopicSettings(include=(f"{mark}-.*",), refresh_interval_s=1.0),
        statistics=StatisticsSettings(emit_interval_s=_INTERVAL_S),
    )
    told = Told(settings=settings, source=mark, topics=topics, target=clusters.b)
    name = f"report-{mark}"
    mirror = run(name, settings)
    try:
        _copy(told, clusters, mirror, 0)
        _wait_told(told, mirror)
        _kill_between_intervals(told, clusters, mirror)
        _copy(told, clusters, mirror, 9)
    finally:
        # What was copied last is told when the flow is drained.
        mirror.down(30.0)
    return told


def _copy(told: Told, clusters: Clusters, mirror: Mirror, number: int) -> None:
    """Write more to the source, and wait until it is on the target."""
    config = clusters.a.confluent_config()
    messages = sample_messages(600, partitions=_PARTITIONS, value_bytes=400, first=600 * number)
    for topic, codec in zip(told.topics, ("zstd", "none"), strict=False):
        produce(config, topic, messages, codec=codec, batch_num_messages=50)
    batches = [(messages[at : at + 100], at % 300 > 0) for at in range(0, 600, 100)]
    produce_transactions(config, told.topics[-1], batches, transactional_id=f"{told.source}-{number}")
    # The system's own word for it may be of a replicator that was just killed.
    wanted = {topic: _count(config, topic) for topic in told.topics}
    target, source = told.target.confluent_config(), told.source

    def copied() -> bool:
        return {topic: _count(target, f"{source}.{topic}") for topic in told.topics} == wanted

    wait_caught_up(mirror, {(told.flow, topic): _PARTITIONS for topic in told.topics}, 60.0)
    wait_until(copied, 60.0, f"all on the target: {mirror.events(20)}")


def _count(config: ConfluentConfig, topic: str) -> dict[int, int]:
    return {partition: len(records) for partition, records in read_all(config, topic).items()}


def _wait_told(told: Told, mirror: Mirror) -> None:
    config = told.target.confluent_config()

    def all_told() -> bool:
        values = [record.value for records in read_all(config, told.topic).values() for record in records]
        rows = [json.loads(value or b"{}") for value in values]
        return {(row["topic"], row["partition"]) for row in rows} == {
            (topic, partition) for topic in told.topics for partition in range(_PARTITIONS)
        }

    wait_until(all_told, 60.0, f"statistics in {told.topic}: {mirror.events(20)}")


def _kill_between_intervals(told: Told, clusters: Clusters, mirror: Mirror) -> None:
    """Have something copied that nobody will tell of."""
    for number in range(1, 9):
        time.sleep(_INTERVAL_S - time.time() % _INTERVAL_S + 0.5)
        interval = time.time() // _INTERVAL_S
        _copy(told, clusters, mirror, number)
        (replicator,) = [replicator for replicator in mirror.replicators if replicator.state == "running"]
        assert replicator.pid is not None
        os.kill(replicator.pid, signal.SIGKILL)
        if time.time() // _INTERVAL_S == interval:
            return
    pytest.fail("the machine is too slow to copy within an interval")


def read(spark: SparkSession, told: Told, directory: ReportDirectory, share: float = 1.0) -> None:
    """Read that share of the topic."""
    log = told.log()
    bounds = {number: (start, start + int((end - start) * share)) for number, (start, end) in log.bounds.items()}
    read_new(spark, told.settings.clusters["B"], log.topic_id, bounds, directory)


def document(
    spark: SparkSession, told: Told, directory: ReportDirectory, asked: ReportRequest = _EVERYTHING
) -> dict[str, Any]:
    """The figures."""
    cluster = told.settings.clusters["B"]
    selection = select(spark, directory, asked.since_ms, asked.until_ms)
    found = ReportResult(
        progress=directory.progress,
        partitions=selection.partitions,
        steps=selection.steps,
        step_ms=selection.step_ms,
        gaps=read_skipped_ranges(cluster, told.settings.flows[0]),
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
def whole(spark: SparkSession, told: Told, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Read at once: the figures, and the hours."""
    with open_directory(tmp_path_factory.mktemp("whole"), told.flow, told.topic) as directory:
        read(spark, told, directory)
        return document(spark, told, directory), hours(spark, directory)


def test_sums_are_what_the_target_holds(told: Told, whole: tuple[Any, Any]) -> None:
    """Records exactly, with those that a killed replicator had not told of; bytes exactly where it told of all."""
    made, _ = whole
    truth = told.truth()
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


def test_what_is_uncompressed_is_measured(told: Told, whole: tuple[Any, Any]) -> None:
    """Without a codec the estimate is the size itself; with one it is more."""
    topics = {row["topic"]: row for row in whole[0]["topics"]}
    zstd, none, _ = told.topics
    assert topics[none]["uncompressed_bytes_estimated"] == topics[none]["wire_bytes"]
    assert topics[zstd]["compression_ratio_estimated"] > 2
    assert topics[zstd]["codecs"] == ["zstd"]


def test_hours_and_steps_add_up_to_the_whole(whole: tuple[Any, Any]) -> None:
    """Sums, and percentiles as they are computed elsewhere."""
    made, by_hour = whole
    for name in ("records", "wire_bytes", "untold_records", "batches"):
        told = made["total"]["told_" + name] if name in {"records", "wire_bytes"} else made["total"][name]
        assert sum(row[name] for row in by_hour) == told
    assert sum(step["told_records"] for step in made["steps"]) == made["total"]["told_records"]
    for row in by_hour:
        for name in ("latency_ms", "lag_ms", "lag_records"):
            for percent in (50, 95, 99):
                assert row[f"{name}_p{percent}"] == percentile(row[name] or {}, percent)


def test_in_parts_it_is_the_same(spark: SparkSession, told: Told, whole: tuple[Any, Any], tmp_path: Path) -> None:
    """Each run reads what is new, and the last one finds nothing to read."""
    for share in (0.4, 1.0, 1.0):
        with open_directory(tmp_path, told.flow, told.topic) as directory:
            read(spark, told, directory, share)
            files = len(directory.progress.files)
    with open_directory(tmp_path, told.flow, told.topic) as directory:
        assert len(directory.progress.files) == files > 1
        assert figures(document(spark, told, directory)) == figures(whole[0])
        assert hours(spark, directory) == whole[1]


class _KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("at", ["before the state", "before the hours", "after the hours"])
def test_killed_in_the_middle_nothing_is_doubled(
    spark: SparkSession, told: Told, whole: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The next run makes up for it, whatever was written."""

    def kill(*_: object) -> None:
        raise _KilledError

    with open_directory(tmp_path, told.flow, told.topic) as directory:
        read(spark, told, directory, 0.5)
    with open_directory(tmp_path, told.flow, told.topic) as directory:
        if at == "before the state":
            monkeypatch.setattr(directory, "save", kill)
        else:
            adopt = directory.adopt_hours

            def adopt_and_die(staged: Path) -> None:
                adopt(staged)
                kill()

            monkeypatch.setattr(directory, "adopt_hours", kill if at == "before the hours" else adopt_and_die)
        with pytest.raises(_KilledError):
            read(spark, told, directory)
    with open_directory(tmp_path, told.flow, told.topic) as directory:
        read(spark, told, directory)
        assert figures(document(spark, told, directory)) == figures(whole[0])
        assert hours(spark, directory) == whole[1]


def test_a_part_of_the_time(spark: SparkSession, told: Told, whole: tuple[Any, Any], tmp_path: Path) -> None:
    """What begins before a moment and what begins from it on make up all; before everything there is nothing."""
    middle_ms = (whole[0]["from_ms"] + whole[0]["to_ms"]) // 2
    parts = [
        ReportRequest(since_ms=since, until_ms=until, price_per_gb=1.0, currency="EUR", created_ms=0)
        for since, until in ((None, middle_ms), (middle_ms, None), (None, 1000))
    ]
    with open_directory(tmp_path, told.flow, told.topic) as directory:
        read(spark, told, directory)
        one, two, nothing = (document(spark, told, directory, asked)["total"] for asked in parts)
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
    told = Told(settings=settings, source=source, topics=(), target=clusters.b)
    with open_directory(tmp_path, told.flow, told.topic) as directory:
        read(spark, told, directory)
        made = document(spark, told, directory)
    assert made["sources"]["unusable"] == {kind: len(broken) for kind, broken in sorted(bad.items())}
    assert [example["offset"] for example in made["sources"]["unusable_examples"]] == list(range(1, 11))
    assert made["total"]["told_records"] == 10
    spread = made["total"]["latency_ms"]
    assert (spread["p50"], spread["p95"], spread["max"]) == (10, LATENCY_BOUNDS_MS[-1], LATENCY_BOUNDS_MS[-1])
    assert made["total"]["statistics_told_twice"] == 1
    assert made["gaps"] is None
    # A minute that reaches over a full one: within steps of five, and not told as ten seconds.
    assert (made["step_ms"], made["peak"]["records_per_s"]) == (300_000, 10 / 60)
