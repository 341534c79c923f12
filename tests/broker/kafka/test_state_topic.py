"""A flow's state topic on a real broker: one writer, whole writes, nothing lost."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin, ClusterOverview, NewRemoteTopic
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.state_topic import StateStore, read_state
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError, StateFencedError
from mirror_ray.model.topics import ConfigValue
from tests.support.waiting import wait_until

Opener = Callable[[], StateStore]


@pytest.fixture
def store(settings: ClusterSettings) -> Iterator[Opener]:
    """Make stores of one topic that no other test uses, and no flow: what is written there is no flow's state."""
    name = uuid.uuid4().hex[:8]
    made: list[StateStore] = []

    def make() -> StateStore:
        made.append(StateStore(settings, f"store-{name}", f"mirror-ray-{name}", UNRECORDED))
        return made[-1]

    yield make
    for opened in made:
        opened.close()


def test_a_new_store_is_empty_and_keeps_what_is_written(store: Opener) -> None:
    """A later store reads the last value of each key, and deleted keys are gone."""
    first = store()
    assert first.open() == {}
    first.write({"flow": {"b": 1, "a": "ü"}, "partition/t/0": {"offset": 1}, "gone": {}})
    first.write({"partition/t/0": {"offset": 2}, "gone": None})
    first.close()
    assert store().open() == {"flow": {"b": 1, "a": "ü"}, "partition/t/0": {"offset": 2}}


def test_a_store_can_be_opened_again(store: Opener) -> None:
    """By the flow that could not go on after it had opened it, and begins anew."""
    flow = store()
    flow.open()
    flow.write({"k": {"n": 1}})
    assert flow.open() == {"k": {"n": 1}}
    flow.write({"k": {"n": 2}})
    assert store().open() == {"k": {"n": 2}}


def test_a_write_says_where_it_can_be_read(store: Opener, settings: ClusterSettings) -> None:
    """A reader that begins at the offset sees all of the write; the topic stays small by small segments."""
    first = store()
    first.open()
    first.write({"before": {}})
    offset = first.write({"a": {}, "b": {}})
    again = first.write({"c": {}})
    assert 0 < offset < again
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers[0], "group.id": "test"})
    consumer.assign([TopicPartition(first.topic, 0, offset)])
    keys = [message.key() for message in consumer.consume(3, 20)]
    consumer.close()
    assert keys == [b"a", b"b", b"c"]
    configs = ClusterAdmin(settings, "test").try_describe_topic_configs([first.topic])[first.topic]
    assert isinstance(configs, dict)
    assert configs["segment.bytes"].value == str(4 << 20)


def test_an_older_store_is_fenced(store: Opener, settings: ClusterSettings) -> None:
    """Once a second coordinator has opened the state, the first one's writes fail and leave nothing."""
    first, second = store(), store()
    first.open()
    first.write({"k": {"by": "first"}})
    assert second.open() == {"k": {"by": "first"}}
    for _ in range(2):
        with pytest.raises(StateFencedError, match="another coordinator"):
            first.write({"k": {"by": "nobody"}, "more": {}})
    second.write({"k": {"by": "second"}})
    # A commit is confirmed before its marker is in the log: for so long other readers stop before it.
    wait_until(lambda: read_state(settings, second.topic)["k"] != {"by": "first"}, 10, "the commit is seen")
    documents = read_state(settings, second.topic)
    assert documents["k"] == {"by": "second"}
    assert "more" not in documents


def test_a_store_that_lost_its_producer_does_not_fence_its_successor(store: Opener) -> None:
    """A producer is begun anew only by the coordinator that opened the state last."""
    first, second = store(), store()
    first.open()
    second.open()
    first.close()
    with pytest.raises(StateFencedError):
        first.write({"k": {"by": "nobody"}})
    second.write({"k": {"by": "second"}})


def test_a_store_that_is_opened_while_an_older_one_reconnects(store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one has seen that it owns the state, and fences the newer one: it gives up, and that one goes on."""
    first, second = store(), store()
    first.open()
    first.close()
    connect = first._connect

    def connect_later() -> Producer:
        assert second.open() == {}
        second.write({"k": {"by": "second"}})
        return connect()

    monkeypatch.setattr(first, "_connect", connect_later)
    with pytest.raises(StateFencedError, match="another coordinator"):
        first.write({"k": {"by": "nobody"}})
    second.write({"more": {"by": "second"}})
    assert store().open() == {"k": {"by": "second"}, "more": {"by": "second"}}


def test_a_transaction_that_nobody_ended_leaves_nothing(store: Opener, settings: ClusterSettings) -> None:
    """A coordinator that dies in a write does not hold up the next one, which sees none of it."""
    first = store()
    first.open()
    first.write({"k": {"n": 1}})
    dying = Producer({"bootstrap.servers": settings.bootstrap_servers[0], "transactional.id": first.transactional_id})
    dying.init_transactions(20)
    dying.begin_transaction()
    dying.produce(first.topic, key=b"k", value=b'{"n":2}', partition=0)
    dying.produce(first.topic, key=b"half", value=b"{}", partition=0)
    dying.flush(20)
    assert store().open() == {"k": {"n": 1}}


def test_many_keys_fit_one_write(store: Opener) -> None:
    """The positions of ten thousand partitions are one transaction."""
    changes: dict[str, dict[str, int] | None] = {
        f"partition/t/{number}": {"offset": number} for number in range(10_000)
    }
    first = store()
    first.open()
    first.write(changes)
    assert store().open() == changes


def test_a_topic_that_forgets_is_refused(store: Opener, settings: ClusterSettings) -> None:
    """A state topic that somebody made without compaction is not trusted."""
    topic = store().topic
    ClusterEditor(settings, "test", UNRECORDED).create_topics([NewRemoteTopic(name=topic, partitions=1)])
    with pytest.raises(MirrorError, match=r"cleanup\.policy=delete"):
        store().open()


def test_a_topic_that_forgets_is_refused_before_every_broker_knows_it(
    store: Opener, settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is asked lists a topic, and describes it, a moment after somebody has made it."""
    topic = store().topic
    ClusterEditor(settings, "test", UNRECORDED).create_topics([NewRemoteTopic(name=topic, partitions=1)])
    overview, describe = ClusterAdmin.overview, ClusterAdmin.try_describe_topic_configs
    unlisted, unknown = iter([True]), iter([True])

    def listed(admin: ClusterAdmin, timeout_s: float | None = None) -> ClusterOverview:
        found = overview(admin, timeout_s)
        return replace(found, topics={}) if next(unlisted, False) else found

    def described(admin: ClusterAdmin, names: Collection[str]) -> dict[str, dict[str, ConfigValue] | MirrorError]:
        return {} if next(unknown, False) else describe(admin, names)

    monkeypatch.setattr(ClusterAdmin, "overview", listed)
    monkeypatch.setattr(ClusterAdmin, "try_describe_topic_configs", described)
    with pytest.raises(MirrorError, match=r"cleanup\.policy=delete"):
        store().open()


def test_foreign_records_are_named(store: Opener, settings: ClusterSettings) -> None:
    """A record that is not JSON stops the opening with its offset."""
    first = store()
    first.open()
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers[0]})
    producer.produce(first.topic, key=b"k", value=b"\xff", partition=0)
    producer.flush(20)
    with pytest.raises(MirrorError, match="offset"):
        store().open()


def test_writes_survive_restarts_of_the_broker(fragile: DevCluster, unique_topic: str) -> None:
    """While the only broker is killed and started again twice, each write succeeds and the last one is read."""
    settings = ClusterSettings(alias="B", bootstrap_servers=(fragile.bootstrap,))
    store = StateStore(settings, unique_topic, f"mirror-ray-{unique_topic}", UNRECORDED)
    store.open()
    stop, failures, written = threading.Event(), list[BaseException](), 0

    def write() -> None:
        nonlocal written
        try:
            while not stop.is_set():
                store.write({"k": {"n": written + 1}, "same": {"n": written + 1}})
                written += 1
        except BaseException as error:  # noqa: BLE001 - brought to the test's own thread
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(2):
        before = written
        fragile.brokers[0].kill()
        fragile.brokers[0].start()
        while written < before + 5 and not failures:
            stop.wait(0.1)
    stop.set()
    writer.join(90)
    assert failures == []
    store.close()
    again = StateStore(settings, unique_topic, store.transactional_id, UNRECORDED)
    assert again.open() == {"k": {"n": written}, "same": {"n": written}}
    again.close()
