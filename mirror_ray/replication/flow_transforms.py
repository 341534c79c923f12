"""A flow's transforms in one replicator, and the dead letter topic that its partitions may wait for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.transforms import flow_chains
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.internal_topics import dead_letters_topic
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.replication.flow_schema_ids import FlowSchemaIds
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.supervision import log_failure
from mirror_ray.transforms.dead_letter import dead_letter
from mirror_ray.transforms.loading import TransformChains

_RETRY_S = 1.0
#: How often the event log has it that records of one partition failed.
_REPORT_EVERY_S = 60.0


class FlowTransforms:
    """Runs until ``close``, without a task where the flow has no transforms.

    ``wake()`` is called when partitions may begin; ``on_event(level, text)`` is for the event log.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        *,
        events: PartitionEvents,
        wake: Callable[[], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._events, self._on_event = events, on_event
        self._source, self._target = source, target
        self._schema_ids = FlowSchemaIds(settings, target, events=events, wake=wake, on_event=on_event)
        self._chains, self._problem = TransformChains(()), ""
        try:
            self._chains = flow_chains(settings, self._cluster_ids, self._schema_ids.known)
        except ValueError as error:
            self._problem = f"transforms can't be loaded on this node: {error}"
        topic = settings.transforms.dead_letter_topic or dead_letters_topic(settings.name.source)
        self._writer = InternalTopicWriter(target, topic, cleanup_policy="delete")
        self._waiting: set[PartitionReplication] = set()
        #: By partition, how many failures were reported last, and when.
        self._reported: dict[PartitionReplication, tuple[int, float]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if settings.transforms.steps or settings.provenance.enabled or self._schema_ids.known is not None:
            self._task = asyncio.create_task(self._run(), name=f"flow {settings.name}: dead letters")

    def _cluster_ids(self) -> tuple[str, str]:
        return self._source.metadata.cluster_id, self._target.metadata.cluster_id

    @property
    def not_ready(self) -> str | None:
        """Why no partition may be copied yet, and will be soon; None: they may be."""
        return self._schema_ids.not_ready

    @property
    def schema_needs(self) -> set[SchemaNeed]:
        """What partitions wait for, where schema ids are translated."""
        return self._schema_ids.needs

    def of(self, assignment: Assignment) -> PartitionTransforms | None:
        """Return what the records of a partition go through; None: nothing."""
        chain = self._chains.chain(assignment.partition.topic)
        if chain is None:
            return None
        source = assignment.partition.source
        return PartitionTransforms(chain, source, self._settings.transforms.errors, assignment.skip)

    def problem(self, assignment: Assignment) -> str | None:
        """Say why the partition must not be copied here, if other transforms are loaded than it is assigned with."""
        wanted, found = assignment.transforms, self._chains.identity(assignment.partition.topic)
        if self._problem:
            return self._problem
        if self._settings.provenance.enabled and not all(self._cluster_ids()):
            return "the clusters' ids, by which records say where they are from, are not known yet"
        if wanted == found:
            return None
        return (
            f"to be copied by {wanted or 'no transforms'}, and here they are {found or 'none'}: it goes "
            "on when it is handed out anew; where that does not come, see that all nodes have the same code"
        )

    def changed(self, copy: PartitionReplication) -> None:
        """Look at a partition with transforms, after anything happened to it."""
        self._schema_ids.changed(copy)
        if copy.dead_letters is not None:
            self._waiting.add(copy)
            self._wake.set()
        transforms = copy.transforms
        # A record that transforms fail on is reported by the flow itself, not by each of its routes.
        if transforms is not None and transforms.last_failure is not None and self._settings.route is None:
            now_s = asyncio.get_running_loop().time()
            count, reported_s = self._reported.get(copy, (0, -_REPORT_EVERY_S))
            if transforms.failed > count and now_s - reported_s >= _REPORT_EVERY_S:
                self._reported[copy] = (transforms.failed, now_s)
                self._report(copy, transforms)

    def _report(self, copy: PartitionReplication, transforms: PartitionTransforms) -> None:
        where = f", they are in {self._writer.topic}" if transforms.errors == "dead_letter" else ""
        failure = transforms.last_failure
        self._on_event(
            "warning",
            f"{copy.assignment.partition}: records left out: {transforms.failed}{where}; a transform failed on them, "
            f"last at offset {failure and failure.record.offset}: {failure}",
        )

    def forget(self, copy: PartitionReplication) -> None:
        """Forget a partition that is not replicated here any more."""
        self._waiting.discard(copy)
        self._reported.pop(copy, None)
        self._schema_ids.forget(copy)

    async def close(self) -> None:
        """End the tasks."""
        await self._schema_ids.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for copy in list(self._waiting):
                try:
                    await self._write(copy)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                    log_failure(f"flow {self._settings.name}", error, logging.WARNING)
                    self._events.waiting(copy, f"records that a transform failed on can't be set aside: {error}")
                    self._wake.set()
                    await asyncio.sleep(_RETRY_S)

    async def _write(self, copy: PartitionReplication) -> None:
        letters, transforms = copy.dead_letters, copy.transforms
        if letters is not None and transforms is not None:
            now_ms = time.time_ns() // 1_000_000
            name = self._settings.name
            records = [dead_letter(failure, name, copy.source, now_ms) for failure in letters.failures]
            await self._writer.append_decoded(records)
            self._events.dead_letters_written(copy, letters)
        self._waiting.discard(copy)
