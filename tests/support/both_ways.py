"""One topic name on several clusters that copy it to each other: what to set, to write, and what must come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from mirror_ray.config.settings import MirrorSettings, PolicySettings, ProvenanceSettings, TopicSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS
from mirror_ray.transforms.provenance import HEADER, Origin
from tests.support.group_sync import EVERY_ROUND
from tests.support.kafka import Message, produce
from tests.support.reading import Record, end_offsets, read_all
from tests.support.systems import settings_of

PARTITIONS = 2


def both_ways(
    clusters: Mapping[str, DevCluster], topic: str, max_hops: int | None, groups: str = "none"
) -> MirrorSettings:
    """Each cluster to each other one, all names kept; groups of these names are carried over, in every round."""
    flows = [f"{source}->{target}" for source in clusters for target in clusters if source != target]
    return settings_of(
        clusters,
        *flows,
        topics=TopicSettings(include=(topic,), refresh_interval_s=0.5),
        policy=PolicySettings(class_name=IDENTITY_POLICY_CLASS),
        provenance=ProvenanceSettings(enabled=True, max_hops=max_hops),
        groups=EVERY_ROUND.model_copy(update={"include": (groups,), "emit_checkpoints_interval_s": 0.2}),
    )


def write(clusters: Mapping[str, DevCluster], topic: str, first: int, last: int) -> None:
    """Records of these numbers on every cluster at once, some at a time."""

    def one(alias: str) -> None:
        for start in range(first, last, 25):
            messages = [
                Message(f"{alias}{number}".encode(), b"k%d" % number, (("own", b"x"),), number % PARTITIONS)
                for number in range(start, min(start + 25, last))
            ]
            produce(clusters[alias].confluent_config(), topic, messages, codec="zstd")

    with ThreadPoolExecutor() as threads:
        list(threads.map(one, clusters))


def counts(clusters: Mapping[str, DevCluster], topic: str) -> list[int]:
    """How many records each cluster holds: nothing is transactional or compacted, so ends are counts."""
    return [sum(end_offsets(cluster.confluent_config(), topic).values()) for cluster in clusters.values()]


def check(clusters: Mapping[str, DevCluster], topic: str, number: int) -> None:
    """Every record once on every cluster, in the order of its writer, with its own header and the one that is true."""
    written = {f"{alias}{i}".encode() for alias in clusters for i in range(number)}
    own = {alias: held(cluster, topic) for alias, cluster in clusters.items()}
    times_in = {
        alias: [Counter(record.value for record in records) for records in partitions]
        for alias, partitions in own.items()
    }
    for here, partitions in own.items():
        times = Counter(record.value for records in partitions for record in records)
        assert set(times) == written
        assert max(times.values()) == 1
        for partition, records in enumerate(partitions):
            for alias in clusters:
                numbers = [int((r.value or b"")[1:]) for r in records if (r.value or b"").startswith(alias.encode())]
                assert numbers == sorted(numbers), (here, partition, alias)
            for record in records:
                _check_header(record, here, partition, times_in)


def held(cluster: DevCluster, topic: str) -> list[list[Record]]:
    """All records, by partition."""
    found = read_all(cluster.confluent_config(), topic)
    return [found[number] for number in range(PARTITIONS)]


def _check_header(
    record: Record, here: str, partition: int, times_in: Mapping[str, list[Counter[bytes | None]]]
) -> None:
    alias = (record.value or b"")[:1].decode()
    assert record.headers[0] == ("own", b"x")
    if alias == here:
        assert len(record.headers) == 1
        return
    ((name, value),) = record.headers[1:]
    origin = Origin.parse(value)
    assert (name, origin.partition, origin.hops) == (HEADER, partition, 1)
    assert times_in[alias][partition][record.value] == 1
