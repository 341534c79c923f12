"""Failover and failback as an operator does them, and a rehearsed failover whose source is killed."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from mirror_ray import own_ray
from mirror_ray.failover.plan import STEPS, FailoverStep
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.failover_drill.command import FailoverCommand
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file, wait_for
from tests.support.kafka import create_topic, produce, sample_messages

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def name() -> Iterator[str]:
    """The system's name, the source's alias, and what its group is called; the system is taken down at the end."""
    name = f"fo{uuid.uuid4().hex[:8]}"
    yield name
    if own_ray.find(name) is not None:
        mirror_ray("down", "--deadline", "5", "--name", name)


def test_there_and_back_by_the_command_line(clusters: Clusters, name: str, tmp_path: Path) -> None:
    """Rehearsed by a dry run, killed and taken up, looked at, and back again; without a system the file is enough."""
    flow, topic = f"{name}->B", create_topic(clusters.a.confluent_config(), name)
    produce(clusters.a.confluent_config(), topic, sample_messages(100))
    _stand(clusters.a, name, topic, 40)
    path = tmp_path / "mm2.properties"
    mm2_file(path, clusters, f"{flow}.enabled = true", f"{flow}.topics = {topic}", f"{flow}.groups = {name}")
    path.write_text(path.read_text().replace("A.bootstrap", f"{name}.bootstrap").replace("= A,", f"= {name},"))
    mirror_ray("up", str(path), "--detach", "--name", name)
    wait_for(name, lambda: [each["state"] for each in answer("groups", "--name", name)] == ["synced"], "it is synced")

    mirror_ray("failover", flow, "--name", name, exit_code=2)
    dry = answer("failover", flow, "--name", name, "--dry-run")
    assert [step["outcome"] for step in dry["steps"]] == ["done"] * 9
    assert answer("failover", flow, "--name", name, "--status")["plans"] == []
    killed = FailoverCommand(["failover", flow, "--name", name, "--yes"])
    with killed.running():
        killed.wait_for(STEPS.index(FailoverStep.STOP))
        killed.kill()
    assert killed.reported < len(STEPS)
    done = answer("failover", flow, "--name", name, "--yes")
    assert done["state"] == "finished"
    (partition,) = done["groups"][0]["partitions"]
    assert (partition["destination_topic"], partition["offset"], partition["exact"]) == (f"{name}.{topic}", 40, True)
    assert {each["state"] for each in answer("status", "--name", name)["flows"] if each["flow"] == flow} == {"paused"}
    _stand(clusters.b, name, f"{name}.{topic}", 70)
    back = answer("failback", flow, "--name", name, "--yes")
    assert back["groups"][0]["partitions"][0]["offset"] == 70
    assert _stands(clusters.a, name, topic) == 70
    mirror_ray("down", "--name", name)
    status = answer("failback", flow, "--config", str(path), "--status")
    assert [plan["state"] for plan in status["plans"]] == ["finished"]
    plans = answer("failover", flow, "--config", str(path), "--status")["plans"]
    assert [plan["id"] for plan in plans] == [done["id"]]
    missing = mirror_ray("failover", flow, "--status", "--name", name, exit_code=2)
    assert "--config FILE" in missing.stderr


def test_a_rehearsed_failover_whose_source_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    """Live traffic, groups at work; nothing that is on the target is passed over, and the report says the rest."""
    done = mirror_ray(
        "failover", "A->B", "--simulate", "--groups", "3", "--name", f"rehearsal-{os.getpid()}", timeout_s=400
    )
    assert "**HOLDS.**" in done.stdout
    assert done.stdout.count("| group-0") == 3
    # RPO, RTO, lost, read again: for the log of every run.
    with capsys.disabled():
        sys.stdout.write(f"\n{done.stdout}")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--there-and-back", "1", "--planned"), id="planned"),
        pytest.param(("--there-and-back", "1", "--preserve-offsets"), id="source killed, offsets preserved"),
    ],
)
def test_there_and_back_under_load(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """In topics that keep their names: both sides hold the same in the end, and groups have processed it."""
    name = f"rehearsal-{os.getpid()}"
    done = mirror_ray("failover", "A->B", "--simulate", *options, "--groups", "2", "--name", name, timeout_s=500)
    assert "**HOLDS.**" in done.stdout
    with capsys.disabled():
        sys.stdout.write(f"\n{done.stdout}")


def _stand(cluster: DevCluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def _stands(cluster: DevCluster, group: str, topic: str) -> int:
    consumer = Consumer({**cluster.confluent_config(), "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return found.offset
