"""The source comes back with records that the target never got: nothing happens to them before somebody has chosen."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mirror_ray.config.settings import OffsetSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.failover.run import FailoverReport
from mirror_ray.reversal.flow_states import FlowStateTopic
from tests.broker.failover.test_kills import KilledError
from tests.broker.failover.test_reversal import move, read, scene, write
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, caught_up, numbered, order
from tests.support.groups import commit, committed, process
from tests.support.kafka import create_topic, delete_topic, produce, produce_transactions
from tests.support.local import LocalSystem, aside
from tests.support.reading import end_offsets, read_placed
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)

MODES = pytest.mark.parametrize("mode", ["translate", "preserve"])


@asynccontextmanager
async def diverged(clusters: Clusters, make_topic: TopicMaker, mode: Any) -> AsyncIterator[tuple[LocalSystem, Names]]:
    """A has failed over to B; then A got 11 records more, in partition 1 only, and B 20 in both."""
    async with scene(clusters, make_topic, offsets=OffsetSettings(mode=mode)) as (system, names):
        start = {(names.topic, 0): 30, (names.topic, 1): 30}
        await aside(lambda: commit(clusters.a, f"{names.group}-ahead", start))

        async def synced() -> bool:
            groups = (names.group, f"{names.group}-ahead")
            found = [await aside(lambda g=g: committed(clusters.b, g, names.topic, 2)) for g in groups]  # type: ignore[misc]
            return found == [{0: 30, 1: 30}] * 2

        await system.wait(synced, "the groups stand on B where they do on A")
        await move(system, names, "failover", source_is_gone=True)
        lost = [message._replace(partition=1) for message in numbered(10, 7000)]
        aborted = [([message._replace(partition=1) for message in numbered(3, 900_000)], False), (lost[:1], True)]
        await aside(lambda: produce(clusters.a.confluent_config(), names.topic, lost))
        await aside(
            lambda: produce_transactions(
                clusters.a.confluent_config(), names.topic, aborted, transactional_id=names.topic
            )
        )
        await write(clusters.b, names.topic, 40, 200)
        yield system, names


async def fail_back(system: LocalSystem, names: Names, **options: Any) -> FailoverReport:
    """Run a failback as far as it goes."""
    more = {"dry": options.pop("dry", False)}
    asked = order(names.flow, "failback", options=FailoverOptions(**options), **more)
    return await carry_out(system.settings, asked, system.coordinator)


def exported(directory: Path) -> list[int]:
    """The values in the files of an export, as they are in the files."""
    lines = [line for path in sorted(directory.iterdir()) for line in path.read_text(encoding="utf-8").splitlines()]
    return [int(b64decode(json.loads(line)["value"])) for line in lines]


async def test_it_stops_and_shows_them(clusters: Clusters, make_topic: TopicMaker) -> None:
    """By partition, with the first and the last one; a dry run says the same, and neither changes anything."""
    async with diverged(clusters, make_topic, "preserve") as (system, names):
        before = [await read(cluster, names.topic) for cluster in clusters]
        for options in ({"dry": True}, {}, {"diverged": ("other.*=append",)}):
            report = await fail_back(system, names, **options)
            result = report.plan.results[FailoverStep.REVERSE]
            assert result.outcome == "blocked"
            (partition,) = result.figures["diverged"]
            assert (partition["partition"], partition["records"]) == (f"{names.topic}-1", 11)
            assert (partition["first"]["offset"], partition["first"]["value"]) == (100, "7000")
            assert partition["last"]["value"] == "7000"
            assert "--diverged recreate" in result.summary
            assert "11 records" in result.summary
        assert [await read(cluster, names.topic) for cluster in clusters] == before
        rows = await system.coordinator.partitions(str(names.flow))
        assert {row.state for row in rows} == {"paused"}


@MODES
async def test_it_is_made_anew_from_the_target(
    clusters: Clusters, make_topic: TopicMaker, mode: Any, tmp_path: Path
) -> None:
    """After what it had was written to a file; in the end both sides are what the target was."""
    a, b = clusters
    async with diverged(clusters, make_topic, mode) as (system, names):
        topic = names.topic
        done = await aside(lambda: process(b, names.group, topic, 30))
        report = await fail_back(system, names, diverged=("recreate",), export_diverged=str(tmp_path))
        assert report.plan.finished, report.plan.results
        assert exported(tmp_path) == [*range(7000, 7010), 7000]
        done += await aside(lambda: process(a, names.group, topic))
        assert sorted(map(int, done)) == [*range(60, 240)]
        await write(a, topic, 10, 240)
        await everything_is_equal(system, clusters, topic, 250, placed=mode == "preserve")


@MODES
async def test_it_keeps_them_and_goes_on_behind(clusters: Clusters, make_topic: TopicMaker, mode: Any) -> None:
    """The source has both; what was kept is on the target, too, by itself. A group that is behind the cut missed it."""
    a, b = clusters
    async with diverged(clusters, make_topic, mode) as (system, names):
        topic = names.topic
        done = await aside(lambda: process(b, names.group, topic, 30))
        assert len(await aside(lambda: process(b, f"{names.group}-ahead", topic))) == 180
        report = await fail_back(system, names, diverged=(f"{topic}=append",), export_diverged="topic")
        assert report.plan.finished, report.plan.results
        kept = await read(b, f"{names.flow.source}.{topic}.diverged")
        assert [int(record.value or b"") for record in kept[1]] == [*range(7000, 7010), 7000]
        assert [dict(record.headers)["mirror-ray.diverged.offset"] for record in kept[1]][:2] == [b"100", b"101"]
        done += await aside(lambda: process(a, names.group, topic))
        assert sorted(map(int, done)) == [*range(60, 240), 7000, *range(7000, 7010)]
        assert await aside(lambda: process(a, f"{names.group}-ahead", topic)) == []
        await write(a, topic, 10, 240)
        await caught_up(system, 2)
        here, there = await read(a, topic), await read(b, topic)
        assert here[0] == there[0]
        assert [r for r in here[1] if not 7000 <= int(r.value or b"") < 7010] == there[1]
        # The same again: there is nothing that has diverged any more.
        await move(system, names, "failover")
        await write(b, topic, 10, 250)
        await move(system, names, "failback")
        assert sorted(map(int, await aside(lambda: process(a, names.group, topic)))) == [*range(240, 260)]


async def test_a_source_that_has_lost_its_topic_gets_it_back(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Nothing is to be chosen: it has nothing to lose."""
    a, b = clusters
    async with scene(clusters, make_topic) as (system, names):
        await move(system, names, "failover")
        await aside(lambda: delete_topic(a.confluent_config(), names.topic))
        await write(b, names.topic, 40, 200)
        await move(system, names, "failback")
        assert sorted(map(int, await aside(lambda: process(a, names.group, names.topic)))) == [*range(60, 240)]
        await everything_is_equal(system, clusters, names.topic, 240)


async def everything_is_equal(
    system: LocalSystem, clusters: Clusters, topic: str, count: int, *, placed: bool = False
) -> None:
    """Wait until the flow has copied, then compare all records, with their offsets where these are preserved."""
    a, b = clusters

    async def copied() -> bool:
        ends = [await aside(lambda c=c: end_offsets(c.confluent_config(), topic)) for c in clusters]  # type: ignore[misc]
        return sum(ends[1].values()) >= count

    await system.wait(copied, "everything is copied")
    await caught_up(system, 2)
    if placed:
        sides = [await aside(lambda c=c: read_placed(c.confluent_config(), topic)) for c in clusters]  # type: ignore[misc]
        assert sides[0] == sides[1]
    here, there = await read(a, topic), await read(b, topic)
    assert here == there
    assert sum(map(len, here.values())) == count


async def test_a_topic_that_was_created_anew_is_exported_whole(
    clusters: Clusters, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Nothing in it is known; append is impossible, and what it holds is in the files before it is deleted."""
    a = clusters.a
    async with scene(clusters, make_topic) as (system, names):
        topic = names.topic
        await move(system, names, "failover")
        await aside(lambda: delete_topic(a.confluent_config(), topic))
        await aside(lambda: create_topic(a.confluent_config(), topic, 2))
        await write(a, topic, 6, 7000)
        report = await fail_back(system, names, diverged=("append",))
        assert "append is impossible" in report.plan.results[FailoverStep.REVERSE].summary
        report = await fail_back(system, names, diverged=("recreate",), export_diverged=str(tmp_path))
        assert report.plan.finished, report.plan.results
        assert sorted(exported(tmp_path)) == [*range(7000, 7006)]
        await everything_is_equal(system, clusters, topic, 200)


async def test_an_export_goes_on_where_it_was(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A failback that was killed between export and deletion copies no record twice; the next incident is another."""
    async with diverged(clusters, make_topic, "translate") as (system, names):
        copied = f"{names.flow.source}.{names.topic}.diverged"
        for count in (11, 11):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(FlowStateTopic, "write", _killed)
                with pytest.raises(KilledError):
                    await fail_back(system, names, diverged=("append",), export_diverged="topic")
            assert len((await read(clusters.b, copied))[1]) == count
        report = await fail_back(system, names, diverged=("append",), export_diverged="topic")
        assert report.plan.finished, report.plan.results
        await move(system, names, "failover")
        await aside(lambda: produce(clusters.a.confluent_config(), names.topic, numbered(4, 8000)))
        report = await fail_back(system, names, diverged=("append",), export_diverged="topic")
        assert report.plan.finished, report.plan.results
        found = await read(clusters.b, copied)
        assert [len(found[0]), len(found[1])] == [2, 13]


async def _killed(*_: object) -> None:
    raise KilledError
