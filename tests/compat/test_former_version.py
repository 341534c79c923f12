"""A running system of a former version is taken over by this one while records flow, and the other way round."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import Clusters, TopicMaker
from tests.support.command import environment, mm2_file
from tests.support.groups import commit, committed
from tests.support.kafka import produce, sample_messages
from tests.support.reading import assert_equal_copies, end_offsets
from tests.support.traffic import Production
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

#: The last commit before rooms and names changed: its state topics and MM2's topics are to stay what they are.
_FORMER = "5f055f1a8d"
_ROOT = Path(__file__).parents[2]
_PARTITIONS = 4
_TIMEOUT_S = 90.0


class Version:
    """The command line of one version of mirror-ray, in this environment."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def run(self, *arguments: str, or_exit: int = 0) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "mirror_ray", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            # Ray adds its driver's working directory to what its workers import from.
            cwd=self._root,
            env=environment({"PYTHONPATH": str(self._root)}),
        )
        assert done.returncode in (0, or_exit), f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def system(self, config: str) -> Iterator[str]:
        """A system of this version on a Ray of its own; its name."""
        name = f"version-{uuid.uuid4().hex[:6]}"
        try:
            self.run("up", config, "--detach", "--name", name)
            yield name
        finally:
            self.run("down", "--deadline", "5", "--name", name)

    def state(self, name: str, topic: str) -> str | None:
        """The state of a topic; None before it is found."""
        return next((row["state"] for row in self._topics(name) if row["topic"] == topic), None)

    def problems(self, name: str) -> str:
        """What ``status`` says is wrong, as JSON."""
        return self.run("status", "-o", "json", "--name", name, or_exit=1)

    def groups(self, name: str) -> str:
        """What is known of groups, topics and problems, for people."""
        return "\n".join(self.run(what, "--name", name, or_exit=1) for what in ("groups", "topics", "status"))

    def caught_up(self, name: str) -> bool:
        """Whether all of its topics are copied to their ends."""
        return {row["lag_records"] for row in self._topics(name)} == {0}

    def _topics(self, name: str) -> Any:
        return json.loads(self.run("topics", "-o", "json", "--name", name))


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version before, from this repository's history."""
    directory = tmp_path_factory.mktemp("former")
    archive = subprocess.run(
        ["git", "-C", _ROOT, "archive", _FORMER, "mirror_ray", "actors"],  # noqa: S607 - the machine's own
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        pytest.skip(f"no history here: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)  # noqa: S607 - the machine's own
    return Version(directory)


def test_it_is_taken_over_while_it_runs_and_takes_over_again(
    former: Version, clusters: Clusters, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Nothing is lost or copied twice; what was paused stays so, and a group's offset goes on from where it was."""
    kept = {"retention.ms": "-1"}
    moving, resting = make_topic(clusters.a, _PARTITIONS, kept), make_topic(clusters.a, _PARTITIONS, kept)
    source, target, group = clusters.a.confluent_config(), clusters.b.confluent_config(), f"group-{moving}"
    produce(source, resting, sample_messages(400, partitions=_PARTITIONS))
    commit(clusters.a, group, {(resting, 0): 50})
    topics = f"A->B.topics = {moving}, {resting}"
    config = mm2_file(
        tmp_path / "mm2.properties",
        clusters,
        *("A->B.enabled = true", topics, f"A->B.groups = {group}", "A->B.sync.group.offsets.enabled = true"),
        *("A->B.sync.group.offsets.interval.seconds = 1", "replication.factor = 1"),
    )
    present = Version(_ROOT)

    def copies(version: Version, name: str) -> None:
        _wait(lambda: version.state(name, moving) == "copying", f"{name} copies")

    def translated(version: Version, name: str, offset: int) -> None:
        remote = f"A.{resting}"
        try:
            _wait(lambda: committed(clusters.b, group, remote, _PARTITIONS).get(0) == offset, "the group is synced")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{version.groups(name)}") from error

    with Production(source, moving, _PARTITIONS) as production, former.system(config) as first:
        copies(former, first)
        translated(former, first, 50)
        former.run("pause", "A->B", resting, "--name", first)
        with present.system(config) as second:
            copies(present, second)
            assert present.state(second, resting) == "paused"
            _wait(lambda: "only one system" in former.problems(first), "the former version says that it is fenced")
            before = sum(end_offsets(target, f"A.{moving}").values())
            _wait(lambda: sum(end_offsets(target, f"A.{moving}").values()) > before + 1000, "this version copies")
            present.run("resume", "A->B", resting, "--name", second)
            commit(clusters.a, group, {(resting, 0): 70})
            translated(present, second, 70)
            with former.system(config) as third:
                copies(former, third)
                produce(source, resting, sample_messages(400, partitions=_PARTITIONS, first=400))
                commit(clusters.a, group, {(resting, 0): 150})
                translated(former, third, 150)
                production.stop()
                _wait(lambda: former.caught_up(third), "everything is copied")
    for topic in (moving, resting):
        assert_equal_copies(source, target, topic, f"A.{topic}")


def _wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, _TIMEOUT_S, what, every_s=1.0)
