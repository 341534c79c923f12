"""A remote topic that somebody else has filled is never written to."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file, wait_for
from tests.support.kafka import create_topic, produce, sample_messages
from tests.support.reading import assert_equal_copies, end_offsets, read_all

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)


def test_a_foreign_remote_topic_is_refused_and_the_others_go_on(clusters: Clusters, tmp_path: Path) -> None:
    """The topic's reason is in ``topics`` and ends ``up --until-caught-up`` with 4; every other topic is copied."""
    source, target = (cluster.confluent_config() for cluster in clusters)
    mark = f"foreign{uuid.uuid4().hex[:8]}"
    filled, other = (create_topic(source, f"{mark}-{name}", 2) for name in ("filled", "other"))
    for topic in (filled, other):
        produce(source, topic, sample_messages(200, partitions=2))
    create_topic(target, f"A.{filled}", 2)
    produce(target, f"A.{filled}", sample_messages(50, partitions=2))
    before = read_all(target, f"A.{filled}")
    config = mm2_file(tmp_path / "mm2.properties", clusters, "A->B.enabled = true", f"A->B.topics = {mark}-.*")

    mirror_ray("up", config, "--detach", "--name", mark)
    try:
        failed = mirror_ray("up", config, "--until-caught-up", "--name", mark, exit_code=4)
        assert f"A.{filled}" in failed.stderr
        assert f"A.{other}" not in failed.stderr
        topics = {each["topic"]: each for each in answer("topics", "--name", mark)}
        assert topics[filled]["state"] == "refused"
        assert f"A.{filled}" in topics[filled]["reason"]
        assert "not empty" in topics[filled]["reason"]
        (flow,) = (each for each in answer("status", "--name", mark, exit_code=1)["flows"] if each["flow"] == "A->B")
        assert flow["state"] == "degraded"
        assert any(filled in problem for problem in flow["problems"])
        produce(source, other, sample_messages(100, partitions=2, first=200))
        wait_for(mark, lambda: sum(end_offsets(target, f"A.{other}").values()) == 300, "new records copied")
    finally:
        mirror_ray("down", "--name", mark)
    assert_equal_copies(source, target, other, f"A.{other}")
    assert read_all(target, f"A.{filled}") == before
