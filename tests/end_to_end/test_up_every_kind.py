"""``mirror-ray up mm2.properties --until-caught-up`` on topics of every kind, and again on what came later."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from mirror_ray.lab.devcluster import DevCluster
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file
from tests.support.kinds import compact, create_every_kind, fill_every_kind
from tests.support.reading import assert_equal_copies, read_all

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

#: ``confluent_kafka.TIMESTAMP_CREATE_TIME``: the type of a topic's timestamps is not replicated, as with MM2.
CREATE_TIME = 1


@pytest.fixture
def mark() -> str:
    """What all topic names begin with; the system's name too."""
    return f"kind{uuid.uuid4().hex[:8]}"


def assert_all_equal(source: DevCluster, target: DevCluster, topics: list[str]) -> None:
    """Everything of every topic is the same on both sides."""
    a, b = source.confluent_config(), target.confluent_config()
    for topic in topics:
        if topic.endswith("-append-time"):
            wanted = [each._replace(timestamp_type=CREATE_TIME) for each in read_all(a, topic)[0]]
            assert read_all(b, f"A.{topic}")[0] == wanted
        else:
            assert_equal_copies(a, b, topic, f"A.{topic}")


def test_what_up_leaves_equals_the_source(clusters: Clusters, mark: str, tmp_path: Path) -> None:
    """Every kind of topic is copied whole; a second run adds what is new and doubles nothing."""
    source, target = clusters
    topics = create_every_kind(source, mark)
    fill_every_kind(source, mark)
    compact(source, mark)
    config = mm2_file(tmp_path / "mm2.properties", clusters, "A->B.enabled = true", f"A->B.topics = {mark}-.*")
    mirror_ray("validate", config)
    plan = answer("plan", config)
    created = {each["remote_topic"] for flow in plan["flows"] for each in flow["changes"]}
    assert created >= {f"A.{topic}" for topic in topics}

    first = mirror_ray("up", config, "--until-caught-up", "--name", mark)
    assert "caught up" in first.stderr
    assert_all_equal(source, target, topics)

    fill_every_kind(source, mark, first=10_000)
    mirror_ray("up", config, "--until-caught-up", "--name", mark)
    assert_all_equal(source, target, topics)
