"""Who takes part in the benchmark, and with which configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mirror_ray.config.settings import TopicSettings
from mirror_ray.lab.bench.measurements import ClusterSite

#: What every guide to a fast MirrorMaker 2 recommends: batches that fill a link, and fetches that feed them.
_TUNED = {
    "{target}.producer.compression.type": "zstd",
    "{target}.producer.batch.size": "524288",
    "{target}.producer.linger.ms": "50",
    "{target}.producer.buffer.memory": "134217728",
    "{target}.producer.max.request.size": "4194304",
    "{source}.consumer.fetch.max.bytes": "67108864",
    "{source}.consumer.max.partition.fetch.bytes": "8388608",
    "{source}.consumer.max.poll.records": "10000",
    "{source}.consumer.receive.buffer.bytes": "4194304",
}
_EXACTLY_ONCE = {"{target}.exactly.once.source.support": "enabled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A system and its configuration."""

    name: str
    system: Literal["mirror-ray", "mm2", "floor"]
    #: For the report, one sentence.
    description: str
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    replicators: int = 1
    tasks: int = 8
    #: Whether it is started in a Ray that runs already.
    ray_runs: bool = False


MIRROR_RAY = Contender(name="mirror-ray", system="mirror-ray", description="mirror-ray as it comes: exactly once.")
ON_RAY = Contender(
    name="mirror-ray on Ray",
    system="mirror-ray",
    description="mirror-ray, started in a Ray that runs already.",
    ray_runs=True,
)
RECOMPRESSING = Contender(
    name="mirror-ray zstd",
    system="mirror-ray",
    description="mirror-ray, configured to compress what comes uncompressed (`producer.compression.type = zstd`).",
    properties={"{target}.producer.compression.type": "zstd"},
)
MM2 = Contender(name="mm2", system="mm2", description="MirrorMaker 2 with its defaults, but `tasks.max = 8`.")
MM2_TUNED = Contender(
    name="mm2 tuned",
    system="mm2",
    description="MirrorMaker 2 as an expert would tune it: zstd, batches of 512 KiB, `linger.ms = 50`, large fetches.",
    properties=_TUNED,
)
MM2_EXACTLY_ONCE = Contender(
    name="mm2 eos",
    system="mm2",
    description="MirrorMaker 2 with its defaults, `tasks.max = 8` and `exactly.once.source.support = enabled`.",
    properties=_EXACTLY_ONCE,
)
MM2_TUNED_EXACTLY_ONCE = Contender(
    name="mm2 tuned eos",
    system="mm2",
    description="MirrorMaker 2 tuned, with `exactly.once.source.support = enabled`.",
    properties={**_TUNED, **_EXACTLY_ONCE},
)
BASELINE = Contender(
    name="floor",
    system="floor",
    description="What the brokers alone allow one plain connection: everything fetched and thrown away, then ready"
    " batches produced; the slower of the two. A copy over several connections can be faster.",
)


def scaled(contender: Contender, workers: int) -> Contender:
    """The same with so many replicators, or tasks."""
    word = "replicator" if contender.system == "mirror-ray" else "task"
    words = f"{workers} {word}{'' if workers == 1 else 's'}"
    description = f"{contender.description.removesuffix('.')}; {words}."
    name = f"{contender.name}, {words}"
    return replace(contender, name=name, description=description, replicators=workers, tasks=workers)


def properties(contender: Contender, site: ClusterSite, source: str, bootstrap: Mapping[str, str], topics: str) -> str:
    """The ``mm2.properties`` that a contender is started with; ``topics`` is a pattern.

    ``source`` is the source cluster's alias: a new one for each start, so that remote topics and progress are new.
    ``bootstrap``: the ``bootstrap.servers`` of ``source`` and of ``B``.
    """
    factor, target = str(min(site.target_brokers, 3)), "B"
    lines = {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": bootstrap[source],
        f"{target}.bootstrap.servers": bootstrap[target],
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": topics,
        f"{source}->{target}.sync.group.offsets.enabled": "true",
        f"{target}->{source}.enabled": "false",
        "replication.factor": factor,
        "checkpoints.topic.replication.factor": factor,
        "heartbeats.topic.replication.factor": factor,
        "offset-syncs.topic.replication.factor": "1",
        "tasks.max": str(contender.tasks),
        # An open transaction holds the data back until the contender is warm.
        f"{source}.consumer.isolation.level": "read_committed",
        # The target's cleaner would take records of a compacted topic before the copies are compared.
        "config.properties.exclude": ", ".join((*TopicSettings().config_properties_exclude, "cleanup.policy")),
    }
    if contender.system == "mm2":
        lines |= {f"{target}.{topic}.storage.replication.factor": factor for topic in ("offset", "config", "status")}
        lines |= {f"{source}.{topic}.storage.replication.factor": "1" for topic in ("offset", "config", "status")}
    lines |= {key.format(source=source, target=target): value for key, value in contender.properties.items()}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())
