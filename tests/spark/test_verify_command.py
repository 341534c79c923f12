"""`verify --spark` without a running system: on a Ray of its own, which is gone afterwards."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from mirror_ray import own_ray
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file
from tests.support.kafka import create_topic, produce, sample_messages

pytestmark = pytest.mark.timeout(600)


def test_verify_by_spark(clusters: Clusters, tmp_path: Path) -> None:
    """The same report as without Spark."""
    name = f"sv{uuid.uuid4().hex[:8]}"
    flow, topic = f"{name}->B", create_topic(clusters.a.confluent_config(), name)
    produce(clusters.a.confluent_config(), topic, sample_messages(15_000))
    path = tmp_path / "mm2.properties"
    mm2_file(path, clusters, f"{flow}.enabled = true", f"{flow}.topics = {topic}")
    path.write_text(path.read_text().replace("A.bootstrap", f"{name}.bootstrap").replace("= A,", f"= {name},"))
    mirror_ray("up", str(path), "--until-caught-up", "--name", name, timeout_s=300)
    plain = answer("verify", flow, topic, "--config", str(path), "--name", name)
    assert (plain["outcome"], plain["records"]) == ("equal", 15_000)
    done = mirror_ray(
        "verify", flow, topic, "--spark", "--config", str(path), "--name", name, "-o", "json", timeout_s=400
    )
    assert done.stdout.startswith("{")
    assert json.loads(done.stdout) == plain
    assert own_ray.find(f"{name}-spark") is None
