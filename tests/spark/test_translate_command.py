"""The command translate --all as an operator runs it: the same rows from the actors, by Spark, and without a system."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mirror_ray import own_ray
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, mm2_file, wait_for
from tests.support.groups import commit
from tests.support.kafka import create_topic, produce, sample_messages

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def name() -> Iterator[str]:
    """The system's name, the source's alias, and its topic's name; the system is taken down at the end."""
    name = f"tra{uuid.uuid4().hex[:8]}"
    yield name
    if own_ray.find(name) is not None:
        mirror_ray("down", "--deadline", "5", "--name", name)


def test_translate_all_by_the_command_line(
    clusters: Clusters, name: str, tmp_path: Path, command_here: Callable[..., str]
) -> None:
    """By Spark, by the configuration alone; as of a moment before; what is committed by the configuration alone."""
    flow, topic = f"{name}->B", create_topic(clusters.a.confluent_config(), name, 2)
    produce(clusters.a.confluent_config(), topic, sample_messages(200, partitions=2))
    path = tmp_path / "mm2.properties"
    of_flow = {"enabled": "true", "topics": topic, "groups": f"{name}-.*", "sync.group.offsets.enabled": "false"}
    mm2_file(path, clusters, *(f"{flow}.{key} = {value}" for key, value in of_flow.items()))
    path.write_text(path.read_text().replace("A.bootstrap", f"{name}.bootstrap").replace("= A,", f"= {name},"))
    mirror_ray("up", str(path), "--detach", "--name", name)
    groups = {f"{name}-{number}": number * 9 for number in range(11)}
    for group, offset in groups.items():
        commit(clusters.a, group, {(topic, 0): offset, (topic, 1): 100 - offset})
    expected = sorted(
        (group, number, place) for group, offset in groups.items() for number, place in ((0, offset), (1, 100 - offset))
    )

    def translated() -> bool:
        found = answer("groups", flow, "--name", name)
        return _places([{"group": group["group"], **row} for group in found for row in group["partitions"]]) == expected

    wait_for(name, translated, "all groups are translated")
    time.sleep(1)
    then_ms = int(time.time() * 1000)
    rows = answer("translate", flow, "--all", "--name", name)
    by_configuration = ("--config", str(path), "--name", f"{name}-none")
    arguments = ("--all", "--spark", "--to", str(tmp_path / "out"), *by_configuration, "-o", "json")
    by_spark = json.loads(command_here("translate", flow, *arguments))
    assert by_spark == rows
    assert pq.read_table(tmp_path / "out" / "translated.parquet").to_pylist() == rows

    commit(clusters.a, f"{name}-0", {(topic, 0): 50, (topic, 1): 50})
    wait_for(name, lambda: not translated(), "it is seen that a group has moved")
    assert answer("translate", flow, "--all", "--as-of", str(then_ms), "--name", name) == rows
    early = mirror_ray("translate", flow, "--all", "--as-of", "2001-01-01", "--name", name, exit_code=2)
    assert "the oldest moment that can be asked is" in early.stderr
    mirror_ray("down", "--name", name)

    alone = ("--config", str(path), "--name", name)
    past = ("--as-of", str(then_ms))
    assert [row["outcome"] for row in answer("translate", flow, "--all", *past, "--commit", "--dry-run", *alone)] == [
        "would be committed"
    ] * len(rows)
    mirror_ray("translate", flow, "--all", *past, "--commit", "--yes", *alone)
    again = answer("translate", flow, "--all", *past, "--commit", "--dry-run", *alone)
    assert {row["outcome"] for row in again} == {"stands there already"}


def _places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int | None]]:
    return sorted((row["group"], row["partition"], row["target_offset"]) for row in rows)
