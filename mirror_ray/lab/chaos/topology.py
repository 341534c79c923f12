"""Two clusters, their topics of every kind, and the configuration of the flows between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.settings import TopicSettings
from mirror_ray.lab.chaos.chaos_report import FARTHEST_OFFSET
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters
from mirror_ray.lab.kafka_client import create_topics

Kind = Literal["plain", "transactional", "compacted"]

#: The cluster that each cluster's topics are copied to.
TARGETS: Final[Mapping[str, str]] = {"A": "B", "B": "A"}

#: Records are older than any retention.
_KEPT: Final = {"retention.ms": "-1"}
#: A tombstone stays for longer than any standstill: every consumer misses one that is removed before it was read.
_CLEANED_AT_ONCE: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "5000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "180000",
}
#: Records are old, so what counts for the cleaner is older still.
_NEVER_CLEANED: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(100 * 365 * 86_400_000)}

#: A remote log that is to begin behind it is not there within seconds: a broker takes ten million fillers a second.
_LATE: Final = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of the run, and how records are written to it."""

    cluster: str
    name: str
    kind: Kind
    partitions: int
    configs: Mapping[str, str] = field(default_factory=lambda: _KEPT)
    #: Configs of the remote topic, where it must exist before the flow creates it.
    remote_configs: Mapping[str, str] | None = None
    #: How many writers, each of so many records a second.
    writers: int = 1
    records_per_s: int = 100
    #: How long a writer waits for more records of a batch, in ms.
    linger_ms: int = 10
    #: Where the logs of all its partitions begin.
    first_offset: int = 0
    #: Whether the writers use transactions. The compacted topic whose every copied record is checked is written so:
    #: a retry after the broker forgot the writer would be there twice, and cleaning would hide that from us.
    transactions: bool = False

    @property
    def flow(self) -> str:
        """The flow that copies it."""
        return f"{self.cluster}->{TARGETS[self.cluster]}"

    @property
    def remote_name(self) -> str:
        """By the DefaultReplicationPolicy."""
        return f"{self.cluster}.{self.name}"

    @property
    def begins_late(self) -> bool:
        """Whether the copy begins minutes after the flow: its remote log is brought to the source's first offset."""
        return self.first_offset > _LATE

    @property
    def remote_is_cleaned(self) -> bool:
        """Whether the copy is compacted, too."""
        return self.kind == "compacted" and self.remote_configs is None

    @property
    def remote_partitions(self) -> list[tuple[str, int]]:
        """The remote topic with each of its partitions."""
        return [(self.remote_name, number) for number in range(self.partitions)]

    def new_topic(self) -> NewTopic:
        """The topic as it is to be created."""
        return NewTopic(self.name, self.partitions, 1, config=dict(self.configs))


#: Topics whose copies have offsets of their own.
TRANSLATED: Final = (
    Topic(cluster="A", name="orders", kind="plain", partitions=4, records_per_s=300),
    Topic(cluster="A", name="payments", kind="transactional", partitions=2, writers=2, transactions=True),
    Topic(
        cluster="A",
        name="profiles",
        kind="compacted",
        partitions=2,
        configs=_CLEANED_AT_ONCE,
        remote_configs=_NEVER_CLEANED,
        transactions=True,
    ),
    Topic(cluster="A", name="settings", kind="compacted", partitions=2, configs=_CLEANED_AT_ONCE),
    Topic(cluster="B", name="clicks", kind="plain", partitions=4, records_per_s=200),
    Topic(cluster="B", name="transfers", kind="transactional", partitions=2, writers=2, transactions=True),
)

#: Topics whose offsets are preserved: the same ones, one in batches of few records, and one beyond 2^31.
PRESERVED: Final = (
    *(replace(topic, first_offset=1_000_000) for topic in TRANSLATED),
    Topic(
        cluster="A",
        name="readings",
        kind="plain",
        partitions=2,
        writers=2,
        records_per_s=200,
        linger_ms=0,
        first_offset=1_000_000,
    ),
    Topic(
        cluster="A",
        name="archive",
        kind="transactional",
        partitions=1,
        writers=2,
        records_per_s=50,
        transactions=True,
        first_offset=FARTHEST_OFFSET,
    ),
)


#: Of the flows' ``mm2.properties``: remote topics keep a ``min.compaction.lag.ms`` of their own.
_EXCLUDED: Final = (*TopicSettings().config_properties_exclude, "min.compaction.lag.ms")
_TRANSLATED_PROPERTIES: Final = f"config.properties.exclude = {', '.join(_EXCLUDED)}\n"
#: Groups commit until shortly before the end, and are to be in step soon after it.
_PRESERVED_PROPERTIES: Final = f"""\
{_TRANSLATED_PROPERTIES}A->B.offsets = preserve
B->A.offsets = preserve
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
"""


def topics_of(*, preserve_offsets: bool, farthest_offset: int) -> tuple[Topic, ...]:
    """The topics of a run in which offsets are preserved, or of one in which they are not.

    ``farthest_offset``: where the log begins that begins last.
    """
    if not preserve_offsets:
        return TRANSLATED
    *topics, archive = PRESERVED
    return (*topics, replace(archive, first_offset=farthest_offset))


def flow_properties(*, preserve_offsets: bool) -> str:
    """What the flows' ``mm2.properties`` have beside the clusters."""
    return _PRESERVED_PROPERTIES if preserve_offsets else _TRANSLATED_PROPERTIES


@contextmanager
def chaos_clusters(
    directory: Path, forget_every_s: float, *, quick_start: bool = True
) -> Iterator[Mapping[str, DevCluster]]:
    """Start clusters A and B, of one broker each; their data and logs stay in ``directory``.

    ``forget_every_s``: how often the brokers look for producers to forget, those of old records. ``quick_start``: they
    come up sooner, and are slower afterwards.
    """
    properties = {
        "producer.id.expiration.check.interval.ms": f"{1000 * forget_every_s:.0f}",
        # The cleaner comes every second, not every 15.
        "log.cleaner.backoff.ms": "1000",
    }
    options = QUICK_START if quick_start else ()
    clusters = [
        DevCluster(alias, data_dir=directory / alias, server_properties=properties, jvm_options=options)
        for alias in TARGETS
    ]
    with running_clusters(*clusters):
        yield dict(zip(TARGETS, clusters, strict=True))


def create_all_topics(clusters: Mapping[str, DevCluster], topics: Sequence[Topic]) -> None:
    """Create the run's topics, and the remote topics that must exist before their flow creates them."""
    for alias, cluster in clusters.items():
        new = [topic.new_topic() for topic in topics if topic.cluster == alias]
        new += [
            NewTopic(topic.remote_name, topic.partitions, 1, config=dict(topic.remote_configs))
            for topic in topics
            if topic.remote_configs is not None and TARGETS[topic.cluster] == alias
        ]
        create_topics(cluster, new)
