"""The command verify as an operator runs it: beside a running system, and by its configuration alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mirror_ray import own_ray
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file, wait_for
from tests.support.kafka import create_topic, produce, sample_messages

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def name() -> Iterator[str]:
    """The system's name, the source's alias, and its topic's name; the system is taken down at the end."""
    name = f"ver{uuid.uuid4().hex[:8]}"
    yield name
    if own_ray.find(name) is not None:
        mirror_ray("down", "--deadline", "5", "--name", name)


def test_verify_by_the_command_line(clusters: Clusters, name: str, tmp_path: Path) -> None:
    """Equal with a system and without one; what is not known, not reachable or not checked has its exit code."""
    flow, topic = f"{name}->B", create_topic(clusters.a.confluent_config(), name, 2)
    late = f"{name}-late"
    produce(clusters.a.confluent_config(), topic, sample_messages(200, partitions=2))
    path = tmp_path / "mm2.properties"
    mm2_file(path, clusters, f"{flow}.enabled = true", f"{flow}.topics = {topic},{late}")
    path.write_text(path.read_text().replace("A.bootstrap", f"{name}.bootstrap").replace("= A,", f"= {name},"))
    mirror_ray("up", str(path), "--detach", "--name", name)

    def copied() -> bool:
        lags = [each["lag_records"] for each in answer("lag", "--name", name) if each["topic"] == topic]
        return lags == [0, 0]

    wait_for(name, copied, "it is copied")
    report = answer("verify", flow, topic, "--name", name)
    assert (report["outcome"], report["records"]) == ("equal", 200)
    assert [each["outcome"] for each in report["partitions"]] == ["equal", "equal"]
    shown = mirror_ray("verify", flow, topic, "--name", name).stdout.splitlines()
    assert shown[0].split()[:5] == ["TOPIC", "REMOTE", "TOPIC", "PARTITIONS", "RECORDS"]
    assert shown[1].split() == [topic, f"{name}.{topic}", "2", "200", "2", "2", "0", "0", "0", "0", "0"]
    mirror_ray("pause", flow, topic, "--name", name)
    paused = answer("verify", flow, topic, "--name", name, exit_code=1)
    assert (paused["outcome"], paused["records"]) == ("paused", 200)
    mirror_ray("compare", flow, topic, "--name", name, exit_code=1)
    mirror_ray("resume", flow, topic, "--name", name)
    assert "no such topic" in mirror_ray("verify", flow, "nothing", "--name", name, exit_code=2).stderr
    assert "above 0" in mirror_ray("verify", flow, "--sample", "2", "--name", name, exit_code=2).stderr
    assert f"there is no flow B->{name}x" in mirror_ray("verify", f"B->{name}x", "--name", name, exit_code=2).stderr
    mirror_ray("down", "--name", name)

    alone = mirror_ray("verify", flow, topic, "--config", str(path), "--since", "1h", "--sample", "0.5", "-o", "yaml")
    plain = yaml.safe_load(alone.stdout)
    assert (plain["outcome"], plain["records"], plain["sample"]) == ("equal", 200, 0.5)
    # Nobody copies it any more.
    create_topic(clusters.a.confluent_config(), late)
    produce(clusters.a.confluent_config(), late, sample_messages(5))
    missing = mirror_ray("verify", flow, topic, late, "--config", str(path), exit_code=1).stdout
    assert f"{name}.{late}-0 is missing on cluster B" in missing
    path.write_text(
        path.read_text().replace(f"B.bootstrap.servers = {clusters.b.bootstrap}", "B.bootstrap.servers = 127.0.0.1:1")
    )
    assert "cluster B" in mirror_ray("verify", flow, "--config", str(path), exit_code=3).stderr
