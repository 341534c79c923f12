"""The actors on real Ray, copying between real clusters."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil
import pytest
import ray
from ray._private.state import state

from mirror_ray import own_ray
from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import NotRunningError
from mirror_ray.runtime import attach
from mirror_ray.state.actor_names import NAMESPACE, checkpoint_name
from tests.support.clusters import Clusters, TopicMaker
from tests.support.groups import commit, committed
from tests.support.kafka import produce, sample_messages
from tests.support.processes import kill_process, wait_ended
from tests.support.reading import assert_equal_copies
from tests.support.systems import copied, run, settings_of
from tests.support.waiting import wait_until

_ACTORS = {"Checkpoint", "Coordinator", "Gateway", "Heartbeat", "Replicator", "SchemaSync"}


def _settings(clusters: Clusters, *topics: str, replicators: int = 1) -> MirrorSettings:
    selected = TopicSettings(include=topics, refresh_interval_s=1.0)
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=selected, replicators=replicators)


def _wait_for(mirror: Mirror, topic: str, records: int, timeout_s: float = 20.0) -> None:
    """Wait until ``records`` of ``topic`` are acknowledged by the target."""
    wait_until(lambda: copied(mirror, topic) == records, timeout_s, f"{records} records of {topic} copied")


def test_actors_are_not_set_behind_other_work(ray_session: None) -> None:
    """In a Ray of our own a worker has our niceness: with Ray's 15, other work on the machine starves the copying."""
    assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)


def test_what_rays_processes_keep_is_bounded(ray_session: None) -> None:
    """By itself Ray keeps 3 GB of each log, and 100,000 processes that have ended, each command among them."""
    own = own_ray.find(f"tests-{os.getpid()}")
    assert own is not None
    for pid, _ in own.processes:
        environment = psutil.Process(pid).environ()
        logs = (int(environment["RAY_ROTATION_BACKUP_COUNT"]) + 1) * int(environment["RAY_ROTATION_MAX_BYTES"])
        assert logs <= 64 << 20
        assert int(environment["RAY_maximum_gcs_dead_worker_cached_count"]) <= 1000


def test_a_slow_machine_is_no_lost_node(ray_session: None) -> None:
    """Seen at a load of 80 on two cores: Ray gave its only node up, with every actor, and processes that started."""
    own = own_ray.find(f"tests-{os.getpid()}")
    assert own is not None
    for pid, _ in own.processes:
        environment = psutil.Process(pid).environ()
        assert int(environment["RAY_health_check_failure_threshold"]) * 3 >= 300
        assert int(environment["RAY_worker_register_timeout_seconds"]) >= 300


def test_system_copies_is_seen_and_goes_down(clusters: Clusters, make_topic: TopicMaker, system: str) -> None:
    """A topic is copied whole, the attached shell shows it, heartbeats are emitted, down ends every process."""
    topic = make_topic(clusters.a, 4)
    produce(clusters.a.confluent_config(), topic, sample_messages(2000, partitions=4))
    mirror = run(system, _settings(clusters, topic))
    _wait_for(mirror, topic, 2000)
    assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, f"A.{topic}")
    assert "A->B" in repr(mirror)
    wait_until(lambda: mirror.flows[0].heartbeat_age_s is not None, 15, "a heartbeat")
    wait_until(lambda: mirror.flows[0].state == "running", 10, "running")
    assert mirror.replicators[0].pid in psutil.pids()
    process = psutil.Process(mirror.replicators[0].pid)
    mirror.down()
    with pytest.raises(NotRunningError):
        attach(system)
    wait_ended(process, 10)


def test_killed_replicator_is_replaced_and_the_copy_is_equal(
    clusters: Clusters, make_topic: TopicMaker, system: str
) -> None:
    """After SIGKILL of one of two replicators its partitions copy again within 5 s, and the copies are equal."""
    topic = make_topic(clusters.a, 6)
    config = clusters.a.confluent_config()
    produce(config, topic, sample_messages(3000, partitions=6))
    mirror = run(system, _settings(clusters, topic, replicators=2))
    _wait_for(mirror, topic, 3000)
    wait_until(lambda: sorted(replicator.partitions for replicator in mirror.replicators) == [3, 3], 20, "three each")
    victim = mirror.replicators[1]
    kill_process(victim.pid)
    killed_s = time.monotonic()
    produce(config, topic, sample_messages(3000, partitions=6, first=3000))
    _wait_for(mirror, topic, 6000)
    elapsed_s = time.monotonic() - killed_s
    assert elapsed_s < 5, "\n".join(f"{event.time_ms} {event.subject}: {event.text}" for event in mirror.events())

    def replaced() -> bool:
        running = [replicator.pid for replicator in mirror.replicators if replicator.state == "running"]
        return len(running) == 2 and victim.pid not in running

    wait_until(replaced, 20, "a replacement")
    assert_equal_copies(config, clusters.b.confluent_config(), topic, f"A.{topic}")


def test_killed_coordinator_adopts_what_lives(clusters: Clusters, make_topic: TopicMaker, system: str) -> None:
    """After SIGKILL of the coordinator the replicators are the same processes, and new records are copied."""
    topic = make_topic(clusters.a, 2)
    config = clusters.a.confluent_config()
    produce(config, topic, sample_messages(500, partitions=2))
    mirror = run(system, _settings(clusters, topic))
    _wait_for(mirror, topic, 500)
    before = mirror.status()
    kill_process(before.coordinator_pid)
    produce(config, topic, sample_messages(500, partitions=2, first=500))
    wait_until(lambda: mirror.status().coordinator_pid != before.coordinator_pid, 20, "a new coordinator")
    _wait_for(mirror, topic, 1000)
    assert mirror.replicators[0].pid == before.replicators[0].pid
    assert_equal_copies(config, clusters.b.confluent_config(), topic, f"A.{topic}")


def test_killed_checkpoint_actor_is_replaced_and_groups_go_on(
    clusters: Clusters, make_topic: TopicMaker, system: str
) -> None:
    """A group stands on the target within 5 s of its commit on the source, before and after the kill."""
    topic, group = make_topic(clusters.a), f"group-{system}"
    produce(clusters.a.confluent_config(), topic, sample_messages(100))
    mirror = run(system, _settings(clusters, topic))
    _wait_for(mirror, topic, 100)

    def carried(offset: int) -> float:
        commit(clusters.a, group, {(topic, 0): offset})
        committed_s = time.monotonic()
        wait_until(lambda: committed(clusters.b, group, f"A.{topic}", 1) == {0: offset}, 40, f"{group} at {offset}")
        return time.monotonic() - committed_s

    wait_until(lambda: mirror.flows[0].groups is not None, 20, "the checkpoint actor is up")
    carried(10)
    assert carried(40) < 5
    actor: Any = ray.get_actor(checkpoint_name(system, 0), namespace=NAMESPACE)
    kill_process(ray.get(actor.__ray_call__.remote(lambda _: os.getpid())))
    carried(70)
    assert carried(20) < 5
    (status,) = [status for status in mirror.groups("A->B") if status.group == group]
    assert status.state == "synced"
    assert mirror.translate("A->B", topic, 0, 99).offset == 99


def test_attach_without_a_system_says_what_to_do(ray_session: None) -> None:
    """A name that does not run is an error with the next step."""
    assert ray.is_initialized()
    with pytest.raises(NotRunningError, match="mirror-ray up"):
        attach("nobody")


def test_ray_keeps_no_record_of_each_call(clusters: Clusters, make_topic: TopicMaker, system: str) -> None:
    """Its GCS would hold the last 100,000 calls of actors: a replicator is asked three times a second."""
    topic = make_topic(clusters.a, 1)
    mirror = run(system, _settings(clusters, topic))
    wait_until(lambda: mirror.flows[0].heartbeat_age_s is not None, 15, "every actor called")
    ray.get(ray.remote(lambda: None).options(name="recorded").remote())

    def recorded() -> set[str]:
        return {event.task_info.name for event in state._get_all_task_events()}

    # What is recorded is sent once a second, by each process.
    wait_until(lambda: "recorded" in recorded(), 15, "Ray records what others do")
    time.sleep(2.0)
    ours = {name for name in recorded() if system in name or name.split(".")[0] in _ACTORS}
    assert not ours
