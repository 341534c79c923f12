"""The command report: as a user runs it on a running system, later without one, and what it refuses."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clusters import Clusters
from tests.support.command import mirror_ray, mm2_file
from tests.support.kafka import create_topic, exists, produce, sample_messages
from tests.support.reading import read_all
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(900)

_START_S = 400.0


def test_report(clusters: Clusters, tmp_path: Path, command_here: Callable[..., str]) -> None:
    """Twice to the same directory: what the flow copied meanwhile is added; the page and the figures say the same."""
    topic = f"t{uuid.uuid4().hex[:6]}"
    flow, name, directory = "A->B", f"report-{topic}", tmp_path / "report"
    config = clusters.a.confluent_config()
    create_topic(config, topic, 2)
    lines = (f"{flow}.enabled = true", f"{flow}.topics = {topic}", "emit.statistics.interval.seconds = 1")
    file = mm2_file(tmp_path / "mm2.properties", clusters, *lines)
    produce(config, topic, sample_messages(500, partitions=2), codec="zstd")
    mirror_ray("up", file, "--detach", "--name", name)
    try:
        _wait_told(clusters, topic, 500)
        summary = json.loads(
            mirror_ray(
                *("report", flow, "--to", str(directory), "--name", name, "-o", "json"), timeout_s=_START_S
            ).stdout
        )
        assert summary["total"]["records"] >= 500
        produce(config, topic, sample_messages(300, partitions=2, first=500), codec="zstd")
        _wait_told(clusters, topic, 800)
    finally:
        mirror_ray("down", "--name", name)
    shown = command_here(
        *("report", flow, "--to", str(directory), "--config", file, "--name", name),
        *("--price-per-gb", "2", "--currency", "EUR", "--since", "1d"),
    )
    assert str(directory / "report.html") in shown
    assert "EUR" in shown
    made = json.loads((directory / "report.json").read_text())
    (row,) = [row for row in made["topics"] if row["topic"] == topic]
    assert row["records"] == sum(map(len, read_all(clusters.b.confluent_config(), f"A.{topic}").values())) == 800
    page = (directory / "report.html").read_text()
    assert topic in page
    assert "<script" not in page
    assert sorted(path.name for path in directory.iterdir()) == [
        *("_lock", "_state.json", "hours", "intervals", "report.html", "report.json")
    ]


def _wait_told(clusters: Clusters, topic: str, records: int) -> None:
    """Until the statistics tell of so many copied records of the topic."""
    config, statistics = clusters.b.confluent_config(), "mm2-ray-stats.A.internal"

    def published() -> bool:
        if not exists(config, statistics):
            return False
        values = [record.value for partition in read_all(config, statistics).values() for record in partition]
        rows = [json.loads(value) for value in values if value]
        counted: int = sum(row["records"] for row in rows if row["topic"] == topic)
        return counted >= records

    wait_until(published, 60.0, f"{records} records in {statistics}", every_s=0.5)


def test_what_is_refused(clusters: Clusters, tmp_path: Path) -> None:
    """Before Spark is started, with the next step: no statistics yet, turned off, no such flow or time."""
    file = mm2_file(
        tmp_path / "mm2.properties",
        (clusters.b,),
        "clusters = X, B",
        f"X.bootstrap.servers = {clusters.a.bootstrap}",
        "X->B.enabled = true",
    )
    off = mm2_file(
        tmp_path / "off.properties",
        (clusters.b,),
        *("clusters = X, B", f"X.bootstrap.servers = {clusters.a.bootstrap}", "X->B.enabled = true"),
        "emit.statistics.enabled = false",
    )
    name = ("--name", f"none-{uuid.uuid4().hex[:6]}")
    to = ("--to", str(tmp_path / "report"))
    cases = [
        (("report", "X->B", *to, "--config", file, *name), 4, "has no topic mm2-ray-stats.X.internal yet"),
        (("report", "X->B", *to, "--config", off, *name), 2, "emit.statistics.enabled"),
        (("report", "X->C", *to, "--config", file, *name), 2, "there is no flow X->C"),
        (("report", "X->B", *to, *name), 2, "--config"),
        (("report", "X->B", *to, "--config", file, *name, "--since", "noon"), 2, "24h"),
        (("report", "X->B", *to, "--config", file, *name, "--since", "1h", "--until", "2h"), 2, "is not before"),
    ]
    for arguments, code, text in cases:
        assert text in mirror_ray(*arguments, exit_code=code).stderr
    assert not (tmp_path / "report").exists()
