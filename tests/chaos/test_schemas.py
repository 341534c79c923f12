"""Records of an evolving schema, written and read by Confluent's serializers, while everything between is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread

import psutil
import pytest

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from mirror_ray.model.internal_topics import schemas_topic
from tests.broker.test_schemas import settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.kafka import delete_leftover
from tests.support.processes import kill_process, with_descendants
from tests.support.reading import end_offsets, read_all
from tests.support.serialized import MONEY, ORDER_V1, SchemaReader, SchemaWriter, register
from tests.support.systems import replicator_pid, run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

#: Of each version of the schema.
_RECORDS = 40


class Evolution:
    """A topic whose values' schema gets another field again and again, and refers to another schema."""

    def __init__(self, cluster: DevCluster, registry: ImportRegistry, topic: str) -> None:
        self._writer, self._topic = SchemaWriter(cluster, registry.url), topic
        self._fields = [*ORDER_V1["fields"], {"name": "price", "type": ["null", "Money"], "default": None}]
        #: What was written.
        self.values: list[dict[str, object]] = []

    def go_on(self) -> None:
        """Write by one version more."""
        name = f"field{len(self._fields)}"
        self._fields.append({"name": name, "type": "int", "default": 0})
        first = len(self.values)
        values = [{"id": number, "price": {"cents": number}, name: 1} for number in range(first, first + _RECORDS)]
        defaults = dict.fromkeys((field["name"] for field in self._fields[2:-1]), 0)
        values = [defaults | value for value in values]
        schema = ORDER_V1 | {"fields": self._fields}
        self._writer.avro(self._topic, schema, *values, references=[("Money", "Money", 1)])
        self.values += values


@pytest.fixture
def registries() -> Iterator[tuple[ImportRegistry, ImportRegistry]]:
    """The source's and the target's."""
    with ImportRegistry("source") as source, ImportRegistry("target") as target:
        yield source, target


@pytest.mark.parametrize("ids", ["translated", "same"])
def test_everything_is_read_by_the_targets_registry(
    clusters: Clusters,
    fragile: DevCluster,
    registries: tuple[ImportRegistry, ImportRegistry],
    make_topic: TopicMaker,
    system: str,
    ids: str,
) -> None:
    """Each record once, in order, and readable there; SIGKILL of whatever copies while new versions come."""
    source, target = registries
    pair, topic = Clusters(clusters.a, fragile), make_topic(clusters.a)
    # Of another test, whose registries had other ids.
    delete_leftover(fragile.confluent_config(), schemas_topic("A"))
    if ids == "translated":
        register(target.url, "theirs", {"type": "enum", "name": "Theirs", "symbols": ["A"]})
    register(source.url, "Money", MONEY)
    evolution = Evolution(clusters.a, source, topic)
    evolution.go_on()
    mirror = run(system, settings(pair, topic, source.url, target.url, ids=ids))
    wait_until(lambda: _copied(mirror) >= _RECORDS, 60, "the first records")
    broker = fragile.brokers[0]
    victims: list[Callable[[], object]] = [
        lambda: kill_process(replicator_pid(mirror)),
        target.kill,
        lambda: kill_process(_schema_sync()),
        broker.kill,
        source.kill,
    ]
    for kill in victims:
        writing = Thread(target=evolution.go_on)
        writing.start()
        if kill == source.kill:
            # Whoever serializes needs it.
            writing.join()
        kill()
        writing.join()
        broker.start()
        source.start()
        target.start()
    count = len(evolution.values)
    wait_until(lambda: _copied(mirror) >= count, 120, "every record")
    assert end_offsets(clusters.a.confluent_config(), topic) == {0: count}
    there = read_all(fragile.confluent_config(), f"A.{topic}")[0]
    values = [record.value or b"" for record in there]
    assert SchemaReader(target.url).avro(f"A.{topic}", values) == evolution.values
    same = values == [record.value for record in read_all(clusters.a.confluent_config(), topic)[0]]
    assert same == (ids == "same")


def _copied(mirror: Mirror) -> int:
    return sum(partition.position for partition in mirror.partitions())


def _schema_sync() -> int:
    """The process of the actor, which is one of ours."""

    def find() -> int:
        found = with_descendants([psutil.Process()])
        return next((one.pid for one in found if "ray::SchemaSync" in " ".join(one.cmdline())), 0)

    return wait_until(find, 30, "the schema sync's process")
