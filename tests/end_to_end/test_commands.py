"""A detached system, looked at and steered by the command line alone, until it is gone without a trace."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mirror_ray import own_ray
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file, wait_for
from tests.support.kafka import alter_topic, create_topic, produce, sample_messages
from tests.support.processes import addresses, family
from tests.support.reading import assert_equal_copies, end_offsets
from tests.support.stranger import what_a_stranger_can

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

LAG_FIELDS = {"flow", "topic", "partition", "source_end", "position", "lag_records", "lag_bytes", "lag_seconds"}
REPLICATOR_FIELDS = {"id", "node", "pid", "partitions", "records_per_s", "bytes_per_s", "cpu", "memory"}
FLOW = "A->B"

Ask = Callable[..., Any]


@pytest.fixture
def name() -> Iterator[str]:
    """The system's name, and what its topics' names begin with; the system is taken down at the end."""
    name = f"cli{uuid.uuid4().hex[:8]}"
    yield name
    if own_ray.find(name) is not None:
        mirror_ray("down", "--deadline", "5", "--name", name)


def test_a_detached_system_by_the_command_line(clusters: Clusters, name: str, tmp_path: Path) -> None:
    """Up, status, lag, replicators, pause, resume, scale, events, down; all on loopback, and nothing is left."""
    source, target = (cluster.confluent_config() for cluster in clusters)
    still, moving = (create_topic(source, f"{name}-{kind}", 3) for kind in ("still", "moving"))
    for topic in (still, moving):
        produce(source, topic, sample_messages(300, partitions=3))
    config = mm2_file(tmp_path / "mm2.properties", clusters, "A->B.enabled = true", f"A->B.topics = {name}-.*")

    def lag() -> list[dict[str, Any]]:
        """Without the heartbeats, which are replicated too."""
        return [row for row in answer("lag", "--name", name) if row["topic"] in (still, moving)]

    def copied(topic: str, records: int) -> bool:
        """Seen on the target: asking by the command line costs seconds."""
        return set(end_offsets(target, f"A.{topic}").values()) == {records}

    mirror_ray("up", config, "--detach", "--name", name)
    own = own_ray.find(name)
    assert own is not None
    rows = wait_for(name, lambda: _all_copied(lag(), 6), "everything copied")
    assert all(set(row) == LAG_FIELDS and row["flow"] == FLOW for row in rows)
    (replicator,) = answer("replicators", "--name", name)
    assert set(replicator) == REPLICATOR_FIELDS
    assert "Replicator" in psutil.Process(replicator["pid"]).cmdline()[0]
    status = answer("status", "--name", name)
    assert {flow["flow"]: flow["state"] for flow in status["flows"]} == {FLOW: "running", "B->A": "idle"}
    assert addresses(family(own)) == {"127.0.0.1"}
    if os.geteuid() == 0:
        assert what_a_stranger_can(own) == []

    mirror_ray("pause", FLOW, still, "--name", name)
    for topic in (still, moving):
        produce(source, topic, sample_messages(300, partitions=3, first=300))
    wait_for(name, lambda: copied(moving, 200), "the other topic goes on")
    time.sleep(1.0)
    assert copied(still, 100)
    assert {row["position"] for row in lag() if row["topic"] == still} == {100}
    mirror_ray("resume", FLOW, still, "--name", name)
    wait_for(name, lambda: copied(still, 200), "the paused topic goes on")

    mirror_ray("scale", "2", "--name", name)
    wait_for(name, lambda: _shared(answer("replicators", "--name", name)), "both have their share")
    for topic in (still, moving):
        produce(source, topic, sample_messages(300, partitions=3, first=600))
    wait_for(name, lambda: copied(moving, 300) and copied(still, 300), "all copied by two")
    both = ("compare", FLOW, still, moving)
    compared = answer(*both, "--name", name)["topics"]
    assert [(each["state"], each["remote"]["offsets"]) for each in compared] == [("equal", 900)] * 2
    alter_topic(target, f"A.{still}", {"retention.ms": "999999"})
    assert "retention.ms" in mirror_ray(*both, "--differences", "--name", name, exit_code=1).stdout
    texts = [event["text"] for event in answer("events", "--name", name)]
    for part in ("flow started", f"paused {still}", f"resumed {still}", "scale from 1 to 2 replicators"):
        assert part in texts
    assert addresses(family(own)) == {"127.0.0.1"}

    processes = family(own)
    mirror_ray("down", "--name", name)
    _, left = psutil.wait_procs(processes, timeout=20)
    assert left == []
    mirror_ray("status", "--name", name, exit_code=1)
    for topic in (still, moving):
        assert_equal_copies(source, target, topic, f"A.{topic}")


def _all_copied(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return rows if len(rows) == count and all(row["lag_records"] == 0 for row in rows) else []


def _shared(replicators: list[dict[str, Any]]) -> bool:
    return len(replicators) == 2 and all(each["partitions"] >= 3 for each in replicators)
