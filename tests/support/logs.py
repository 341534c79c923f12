"""A stopped broker's log files, changed as a crash or an unclean leader election would have left them."""

from __future__ import annotations

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import iter_batches


def cut_log(cluster: DevCluster, partition: TopicPartition, end: int) -> None:
    """Kill the cluster's one broker, take away what its log holds from offset ``end`` on, and start it again.

    ``end`` must be where a batch begins, in the partition's only segment.
    """
    (broker,) = cluster.brokers
    broker.kill()
    folder = broker.directory / "data" / f"{partition.topic}-{partition.partition}"
    (segment,) = folder.glob("*.log")
    content = segment.read_bytes()
    kept = [b for b in iter_batches(memoryview(bytearray(content))) if b.base_offset < end]
    assert kept[-1].next_offset == end, f"a batch ends at {kept[-1].next_offset}, not at {end}"
    segment.write_bytes(content[: sum(len(batch.view) for batch in kept)])
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        index.unlink()
    broker.start()
