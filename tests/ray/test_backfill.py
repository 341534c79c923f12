"""Backfills beside live traffic, on real brokers, with processes that are killed half-way."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner, Result

from mirror_ray.cli.app import app
from mirror_ray.cli.backfill import read_request
from mirror_ray.config.settings import TopicSettings
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError
from mirror_ray.observe.backfills import BackfillStatus
from tests.support.clusters import Clusters
from tests.support.kafka import create_topic, produce, sample_messages
from tests.support.processes import kill_process
from tests.support.reading import end_offsets, read_all
from tests.support.systems import replicator_pid, run, settings_of, topics_with, wait_caught_up
from tests.support.waiting import wait_until

OLD, PARTITIONS = 100_000, 2


@contextmanager
def traffic(clusters: Clusters, topic: str) -> Iterator[list[int]]:
    """Records to the topic without ceasing; how many were written."""
    written, over = [0], threading.Event()

    def write() -> None:
        while not over.is_set():
            produce(clusters.a.confluent_config(), topic, sample_messages(200, partitions=PARTITIONS, first=written[0]))
            written[0] += 200
            over.wait(0.05)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join()


def found(mirror: Mirror, into: str) -> BackfillStatus | None:
    """The newest backfill into a topic; a coordinator that begins has not read of any yet."""
    return next((backfill for backfill in reversed(mirror.backfills("A->B")) if backfill.into == into), None)


def wait_until_begun(mirror: Mirror, into: str) -> None:
    """Wait until something is copied."""
    wait_until(lambda: (seen := found(mirror, into)) is not None and seen.copied > 0, 60, f"{into} begun")


def wait_for(mirror: Mirror, into: str, state: str) -> None:
    """Wait until it is in that state."""
    wait_until(lambda: (seen := found(mirror, into)) is not None and seen.state == state, 60, f"{into} {state}")


def test_backfill_beside_the_tail(clusters: Clusters, system: str) -> None:
    """Into another topic, replicator and coordinator killed; then behind the live copy: every record once."""
    mark = f"b{uuid.uuid4().hex[:8]}"
    topic, other = f"{mark}-orders", f"{mark}-again"
    a, b = clusters.a.confluent_config(), clusters.b.confluent_config()
    create_topic(clusters.a.confluent_config(), topic, PARTITIONS, topic_config={"max.message.bytes": "2000000"})
    produce(a, topic, sample_messages(OLD, partitions=PARTITIONS), codec="lz4")
    topics = TopicSettings(include=(topic,), refresh_interval_s=1.0, start="latest")
    mirror = run(system, settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics))
    wait_caught_up(mirror, {("A->B", topic): PARTITIONS})
    first = dict.fromkeys(range(PARTITIONS), OLD // PARTITIONS)

    # A range that begins and ends within batches.
    start, end = "0@1234,1@7", f"0@{first[0] - 77},1@{first[1]}"
    with traffic(clusters, topic):
        planned = mirror.backfill("A->B", read_request(topic, start, end, into=other), dry_run=True)
        assert (planned.state, planned.offsets) == ("planned", OLD - 1234 - 7 - 77)
        assert not topics_with(clusters.b, other)
        assert found(mirror, other) is None
        mirror.backfill("A->B", read_request(topic, start, end, into=other))
        assert [backfill.into for backfill in mirror.status().backfills] == [other]
        wait_until_begun(mirror, other)
        kill_process(replicator_pid(mirror))
        with pytest.raises(ConfigError, match=r"under way|done"):
            mirror.backfill("A->B", read_request(topic, "earliest", None, into=other))
        kill_process(mirror.status().coordinator_pid)
        wait_for(mirror, other, "done")
    assert mirror.status().backfills == ()
    # The coordinator that was started anew answers before it knows the topics.
    wait_until(lambda: mirror.flows[0].discovered, 20, "the flow is discovered again")
    again = mirror.backfill("A->B", read_request(topic, start, end, into=other))
    assert (again.state, again.copied) == ("done", again.offsets)
    source, copy = read_all(a, topic), read_all(b, other)
    assert copy == {0: source[0][1234 : first[0] - 77], 1: source[1][7 : first[1]]}
    state = f"backfill-{again.name.partition('#')[2]}"
    wait_until(lambda: not topics_with(clusters.b, state), 20, "its state topic is gone")
    wait_caught_up(mirror, {("A->B", topic): PARTITIONS})
    assert {number: len(records) for number, records in read_all(b, f"A.{topic}").items()} == {
        number: len(records) - first[number] for number, records in source.items()
    }
    _behind(mirror, clusters, topic, first)


def _behind(mirror: Mirror, clusters: Clusters, topic: str, first: dict[int, int]) -> None:
    """What lies before the live copy, into its own remote topic."""
    remote = f"A.{topic}"
    with pytest.raises(ConfigError, match="would double records"):
        mirror.backfill("A->B", read_request(topic, "earliest", "latest"))
    with pytest.raises(ConfigError, match="--behind"):
        mirror.backfill("A->B", read_request(topic, "earliest", None))
    with traffic(clusters, topic):
        mirror.backfill("A->B", read_request(topic, "earliest", None, behind=True))
        wait_until_begun(mirror, remote)
        kill_process(replicator_pid(mirror))
        wait_for(mirror, remote, "done")
    wait_caught_up(mirror, {("A->B", topic): len(first)})
    source, copy = read_all(clusters.a.confluent_config(), topic), read_all(clusters.b.confluent_config(), remote)
    assert sorted(map(repr, copy[0] + copy[1])) == sorted(map(repr, source[0] + source[1]))
    with pytest.raises(ConfigError, match="a second one would write"):
        mirror.backfill("A->B", read_request(topic, "0@5", None, behind=True))


def test_what_is_refused_and_cancelled(clusters: Clusters, system: str) -> None:
    """Filled topics, live ones, offsets that are not there; a cancelled backfill is gone on with by the same words."""
    mark = f"b{uuid.uuid4().hex[:8]}"
    topic, filled, other = f"{mark}-orders", f"{mark}-filled", f"{mark}-again"
    a, b = clusters.a.confluent_config(), clusters.b.confluent_config()
    create_topic(a, topic, 1)
    produce(a, topic, sample_messages(100))
    produce(b, create_topic(b, filled, 1), sample_messages(1))
    mirror = run(system, settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topic))
    wait_caught_up(mirror, {("A->B", topic): 1})
    for request, text in (
        (read_request(topic, "earliest", None, into=filled), "is not empty"),
        (read_request(topic, "earliest", None, into=f"A.{topic}"), "a flow writes"),
        (read_request(topic, "0@101", None, into=other), "goes from 0 to 100"),
        (read_request(topic, "0@50", "0@10", into=other), "before its start"),
        (read_request(topic, "earliest", None, into=other, partitions="1"), "and not 1"),
        (read_request(topic, "latest", None, into=other), "nothing to copy"),
        (read_request(topic, "earliest", None), "began at its first record"),
        (read_request(f"{topic}-x", "earliest", None, into=other), "no topic"),
    ):
        with pytest.raises(ConfigError, match=text):
            mirror.backfill("A->B", request)
    assert not topics_with(clusters.b, other)

    request = read_request(topic, "earliest", "0@90", into=other)
    mirror.backfill("A->B", request)
    mirror.cancel_backfill("A->B", topic, other)
    wait_for(mirror, other, "cancelled")
    mirror.backfill("A->B", request)
    wait_for(mirror, other, "done")
    assert end_offsets(b, other) == {0: 90}
    assert read_all(b, other)[0] == read_all(a, topic)[0][:90]


def test_the_command(clusters: Clusters, system: str) -> None:
    """Planned, begun without waiting, watched to its end; its exit codes say what was."""
    mark = f"b{uuid.uuid4().hex[:8]}"
    topic, other = f"{mark}-orders", f"{mark}-again"
    a, b = clusters.a.confluent_config(), clusters.b.confluent_config()
    create_topic(a, topic, 1)
    produce(a, topic, sample_messages(20_000))
    mirror = run(system, settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topic))
    wait_caught_up(mirror, {("A->B", topic): 1})

    def command(*words: str) -> Result:
        return CliRunner().invoke(app, ["backfill", *words, "--name", system])

    asked = ("A->B", topic, "--from", "0@5", "--to", "0@19000", "--into", other)
    planned = command(*asked, "--dry-run", "-o", "json")
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["partitions"] == [{"partition": 0, "start": 5, "end": 19_000, "position": 5}]
    assert command("A->B", topic, "--into", f"A.{topic}").exit_code == 2
    assert command("A->B", topic, "--into", other, "--cancel").exit_code == 2
    assert command(*asked, "--detach").exit_code == 0
    ended = command(*asked, "-o", "json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["state"] == "done"
    (listed,) = [backfill for backfill in json.loads(command("A->B", "-o", "json").stdout) if backfill["into"] == other]
    assert (listed["copied"], listed["eta_seconds"]) == (18_995, 0.0)
    assert other in command().stdout
    assert read_all(b, other)[0] == read_all(a, topic)[0][5:19_000]
