"""What every tier shares: markers by folder, two real clusters, names that nobody else uses."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from mirror_ray.lab.devcluster import QUICK_START, ApicurioRegistry, DevCluster, DevListener, DevSecurity
from mirror_ray.lab.devcluster.clusters import start_all
from tests.support.class_archive import share_classes
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.kafka import create_topic
from tests.support.waiting import PATIENCE

# Ray reads it once, when a test module first imports it.
os.environ.setdefault("RAY_AUTH_MODE", "token")

# Every Java process of a test is a short one: what compiling well would save, it would not live to have.
os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join(QUICK_START))

# A machine that is busy with brokers is slow at times: that is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

#: Records of tests are of fixed times, long past: a broker would remove them when it first looks, after half a minute.
#: Its log cleaner looks every second instead of every 15; ten times, it would take a tenth of a core by itself.
KEEPS_ALL = {"log.initial.task.delay.ms": "86400000", "log.cleaner.backoff.ms": "1000"}
#: Of brokers that nobody kills: a dead one would be noticed late. Idle, they take a third of the processor's time.
QUIET = {
    **KEEPS_ALL,
    "metadata.max.idle.interval.ms": "0",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    # Each thread of a pool wakes up several times a second.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "group.coordinator.threads": "1",
    "share.coordinator.threads": "1",
}

#: In the order to run them: what takes minutes begins first, so that all workers end together.
TIERS = ("spark", "end_to_end", "chaos", "ray", "broker", "compat", "model", "web", "unit", "timed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the tier whose folder it lies in, and put the tiers in order; within one it stays random."""
    tiers = {item: _tier(item) for item in items}
    for item, tier in tiers.items():
        if tier in TIERS:
            item.add_marker(tier)
        own = item.get_closest_marker("timeout")
        if own is not None:
            item.add_marker(pytest.mark.timeout(own.args[0] * PATIENCE), append=False)
    items.sort(key=lambda item: TIERS.index(tiers[item]) if tiers[item] in TIERS else len(TIERS))


def _tier(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


#: What one worker runs, for what these files share takes longer to start than most of them take: the fixtures here.
_TOGETHER = {
    "tests/spark/": "spark",
    "tests/chaos/test_brokers_are_killed.py": "trio",
    "tests/chaos/test_groups.py": "trio",
    "tests/chaos/test_three_brokers.py": "trio",
    "tests/broker/kafka/test_transport.py": "trio",
    "tests/broker/replication/test_leaders_move.py": "trio",
    "tests/chaos/test_actors_come_back.py": "mortal",
    "tests/chaos/test_schemas.py": "mortal",
    "tests/chaos/test_transforms.py": "mortal",
    "tests/broker/kafka/test_fenced.py": "mortal",
    "tests/broker/kafka/test_state_topic.py": "mortal",
    "tests/broker/replication/test_leases.py": "mortal",
    "tests/broker/replication/test_removed_on_the_target.py": "mortal",
    "tests/broker/replication/test_resources.py": "mortal",
    "tests/broker/test_truncated_logs.py": "mortal",
    "tests/broker/kafka/test_security.py": "secured",
    "tests/broker/replication/test_one_partition_stops.py": "secured",
    "tests/broker/test_acl_sync.py": "secured",
    "tests/broker/test_compare.py": "secured",
    "tests/broker/test_devcluster.py": "secured",
    "tests/broker/test_plan.py": "secured",
}
#: These tiers have none of the fixtures that cost something as long as they are there.
_LIGHT_TIERS = frozenset({"model", "web", "unit"})
_HEAVY_FIXTURES = ("ray_session", "clusters", "third_cluster", "secured", "apicurio")


def _shared_by(nodeid: str) -> str | None:
    return next((name for path, name in _TOGETHER.items() if nodeid.startswith(path)), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, the order of the files is ours, and one worker has all that belongs `_TOGETHER`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    scheduling = LoadFileScheduling(config, log)
    file_of = scheduling._split_scope
    scheduling._split_scope = lambda test: _shared_by(test) or file_of(test)
    config.option.loadscopereorder = False
    return scheduling


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End fixtures of the session that no later test of this process has: brokers and Spark are never quite idle."""
    yield
    if nextitem is None:
        return
    shared = _shared_by(item.nodeid)
    unused = [shared] if shared is not None and shared != _shared_by(nextitem.nodeid) else []
    unused += _HEAVY_FIXTURES if _tier(nextitem) in _LIGHT_TIERS else ()
    find = item.session._fixturemanager.getfixturedefs
    for fixture in chain.from_iterable(find(name, item) or () for name in unused):
        fixture.finish(item._request)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """Clusters A and B, started when a test first asks for them.

    Both have a heartbeats topic from the start, as any running flow leaves one behind: a test that trips over
    it must not depend on which tests ran before.
    """
    share_classes()
    pair = Clusters(
        DevCluster("A", server_properties=QUIET, jvm_options=QUICK_START),
        DevCluster("B", server_properties=QUIET, jvm_options=QUICK_START),
    )
    try:
        start_all(pair)
        for cluster in pair:
            create_topic(cluster.confluent_config(), "heartbeats", 1, topic_config={"cleanup.policy": "compact"})
        yield pair
    finally:
        for cluster in pair:
            cluster.close()


@pytest.fixture
def unique_topic() -> str:
    """A topic name that no other test uses; the topic is not created."""
    return f"topic-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def make_topic() -> TopicMaker:
    """Create topics of new names: ``make_topic(cluster, partitions=1, topic_config=None) -> name``."""

    def make(cluster: KafkaCluster, partitions: int = 1, topic_config: Mapping[str, str] | None = None) -> str:
        name = f"topic-{uuid.uuid4().hex[:10]}"
        return create_topic(cluster.confluent_config(), name, partitions, topic_config=topic_config)

    return make


@pytest.fixture(scope="session")
def third_cluster() -> Iterator[DevCluster]:
    """Cluster C, for topologies of three; shared like A and B."""
    share_classes()
    with DevCluster("C", server_properties=QUIET, jvm_options=QUICK_START) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured() -> Iterator[DevCluster]:
    """A cluster with a listener of every kind, which grants alice only what ACLs say; topics are each test's own.

    By `DevCluster.listener`: PLAIN, OAUTH, SCRAM (with TLS), TLS (mutual), and SESSIONS, as PLAIN with sessions of
    two seconds (KIP-368). Its first listener is plain, and may do all.
    """
    listeners = {
        "PLAIN": DevSecurity.plain(),
        "SESSIONS": replace(DevSecurity.plain(), session_ms=2000),
        "OAUTH": DevSecurity.oauth(),
        "SCRAM": DevSecurity.scram_over_tls(),
        "TLS": DevSecurity.mutual_tls(),
    }
    authorizer = DevSecurity(authorizer=True)
    share_classes()
    with DevCluster(
        "secured", security=authorizer, listeners=listeners, server_properties=QUIET, jvm_options=QUICK_START
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def guarded(secured: DevCluster) -> DevListener:
    """Where alice may do what ACLs say, by SASL's PLAIN."""
    return secured.listener("PLAIN")


@pytest.fixture(scope="session")
def trio() -> Iterator[DevCluster]:
    """A cluster of three brokers that may be stopped and killed; a test leaves all of them running."""
    share_classes()
    with DevCluster("trio", 3, heap="320m", server_properties=KEEPS_ALL, jvm_options=QUICK_START) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mortal() -> Iterator[DevCluster]:
    """See `fragile`."""
    forgetful = {**KEEPS_ALL, "producer.id.expiration.check.interval.ms": "200"}
    share_classes()
    with DevCluster("fragile", server_properties=forgetful, jvm_options=QUICK_START) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fragile(mortal: DevCluster) -> DevCluster:
    """A cluster of one broker, to be held still, killed and started again; it runs when a module's tests begin.

    It looks for producers to forget, those of old records, five times a second instead of every ten minutes.
    """
    return mortal.start()


@pytest.fixture(scope="session")
def apicurio() -> Iterator[ApicurioRegistry]:
    """A schema registry shared by all tests of a session: never stop or kill it.

    Subjects of a test begin with its `subject_prefix`.
    """
    with ApicurioRegistry("shared") as registry:
        yield registry


@pytest.fixture
def subject_prefix() -> str:
    """What no other test's subjects begin with."""
    return f"s-{uuid.uuid4().hex[:10]}-"


@pytest.fixture
def import_registry() -> Iterator[ImportRegistry]:
    """An empty registry with Confluent's modes, the test's own: it may be killed, and fail on command."""
    with ImportRegistry() as registry:
        yield registry


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One Ray on loopback for all tests that need one, started as `mirror-ray up` starts its own."""
    import ray

    from actors import loopback_ray
    from actors.connection import connect
    from mirror_ray import own_ray

    own = loopback_ray.start_ray(f"tests-{os.getpid()}", detached=False)
    connect(own.name, own.address)
    # What tests start themselves is to find its own way.
    del os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]
    yield
    ray.shutdown()
    own_ray.stop(own)


@pytest.fixture
def system(ray_session: None) -> Iterator[str]:
    """A system's name of its own; what runs under it is taken down afterwards."""
    with _own_system() as name:
        yield name


@contextlib.contextmanager
def _own_system() -> Iterator[str]:
    from mirror_ray.model.errors import MirrorError
    from mirror_ray.runtime import attach

    name = f"test-{uuid.uuid4().hex[:6]}"
    yield name
    with contextlib.suppress(MirrorError):
        attach(name).down(10.0)


@pytest.fixture(scope="module")
def module_system(ray_session: None) -> Iterator[str]:
    """As `system`, for all tests of a file."""
    with _own_system() as name:
        yield name
