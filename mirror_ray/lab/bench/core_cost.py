"""What copying costs a replicator's processor, by replicators and by partitions; the brokers are stubs.

Where processes share processors, each of them costs more. So one row is of several systems side by side, which have
nothing in common: what one system with as many replicators costs beyond that is its own.

Each replicator's engine is a process of its own, without Ray. Before anything counts it has its partitions, and knows
where their logs end; then the source's records are there at once. Counted is the processor time of the processes that
copy, of all their threads, until all is acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.metadata import topic_id_text
from mirror_ray.lab.bench.dataset import PreparedTopics
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.bench.piped_process import piped_process
from mirror_ray.lab.bench.stub_broker import StubBroker
from mirror_ray.lab.bench.stub_logs import RepeatedLog, StubLog, StubTopic
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.internal_topics import segments_topic, statistics_topic
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from mirror_ray.replication.engine import ReplicationEngine
from mirror_ray.state.records import GrantRecord
from mirror_ray.state.schema import GRANT, state_topic

_FLOW: Final = FlowName("A", "B")
_TOPIC, _REMOTE = "load", "A.load"
_BATCH: Final = DataSpec(records=500, record_bytes=1000, batch_records=500, codec="zstd", partitions=1)
#: A batch that no log is filled with.
_UNUSED: Final = bytes(61)
_MAX_MESSAGE_BYTES: Final = 1_048_588
_OWNER: Final = "bench"
#: As often as a coordinator asks for a report.
_REPORT_S: Final = 0.5
_READY_S, _COPIED_S = 120.0, 300.0
#: Processes that share nothing with this one, as those of actors.


class ScalingCase(NamedTuple):
    """Systems that run at once; each has its own brokers, replicators, and partitions."""

    systems: int
    replicators: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreCost:
    """What one copy cost. Partitions, replicators and ``cpu_s``: of all systems together."""

    systems: int
    replicators: int
    partitions: int
    records: int
    cpu_s: float
    seconds: float

    @property
    def cpu_s_per_million(self) -> float:
        """Processor seconds for a million records."""
        return self.cpu_s * 1e6 / self.records


#: The first one is the measure of the others.
CASES: Final = (
    ScalingCase(1, 1, 1_000),
    ScalingCase(1, 2, 1_000),
    ScalingCase(1, 4, 1_000),
    ScalingCase(4, 1, 250),
    ScalingCase(1, 1, 100),
    ScalingCase(1, 1, 10_000),
)
#: How many batches are copied in all, and how often.
_BATCHES, _TIMES = 80_000, 3


def measure_core_cost(size: float, say: Callable[[str], None]) -> list[CoreCost]:
    """Measure each of ``CASES`` three times, in turn; the median of each by processor time.

    ``size``: share of the records, but one batch of each partition at least.

    Raises:
        MirrorError: Not all was copied in time, or a process of the benchmark has ended.
    """
    with tempfile.TemporaryDirectory() as directory:
        (batch,) = PreparedTopics(Path(directory)).batches(_BATCH)
    found: dict[ScalingCase, list[CoreCost]] = {case: [] for case in CASES}
    for number in range(_TIMES):
        for case, costs in found.items():
            costs.append(_copy(case, batch, max(1, round(_BATCHES * size / (case.systems * case.partitions)))))
            cost = costs[-1]
            say(f"{number + 1}/{_TIMES}: {cost.replicators} replicators, {cost.partitions:,} partitions")
    return [_median(costs) for costs in found.values()]


def measure_idle_cost(partitions: int, seconds: float) -> float:
    """The share of a core that a replicator takes for so many partitions without any records.

    Raises:
        MirrorError: They were not copied in time, or a process of the benchmark has ended.
    """
    with ExitStack() as stack:
        brokers = [stack.enter_context(piped_process(_serve, alias, partitions, _UNUSED)) for alias in _FLOW[:2]]
        addresses = _receive(brokers[0]), _receive(brokers[1])
        copy = stack.enter_context(piped_process(_replicate, addresses, range(partitions), 0, seconds))
        _receive(copy)
        return float(_receive(copy)) / seconds


def _median(costs: Sequence[CoreCost]) -> CoreCost:
    middle = median(cost.cpu_s for cost in costs)
    return min(costs, key=lambda cost: abs(cost.cpu_s - middle))


def _copy(case: ScalingCase, batch: bytes, batches_each: int) -> CoreCost:
    with ExitStack() as stack:
        systems = [_start(stack, case, batch, batches_each * _BATCH.records) for _ in range(case.systems)]
        copies = [copy for _, of_system in systems for copy in of_system]
        for copy in copies:
            _receive(copy)
        began_s = time.monotonic()
        for source, _ in systems:
            source.send(batches_each)
        costs = [float(_receive(copy)) for copy in copies]
        seconds = time.monotonic() - began_s
    return CoreCost(
        systems=case.systems,
        replicators=len(copies),
        partitions=case.systems * case.partitions,
        records=case.systems * case.partitions * batches_each * _BATCH.records,
        cpu_s=sum(costs),
        seconds=seconds,
    )


def _start(stack: ExitStack, case: ScalingCase, batch: bytes, end: int) -> tuple[Any, list[Any]]:
    """Start one system; returns our end of the pipe to its source, and of those to its replicators."""
    source = stack.enter_context(piped_process(_serve, "A", case.partitions, batch))
    target = stack.enter_context(piped_process(_serve, "B", case.partitions, b""))
    addresses = _receive(source), _receive(target)
    shares = [range(first, case.partitions, case.replicators) for first in range(case.replicators)]
    return source, [stack.enter_context(piped_process(_replicate, addresses, share, end)) for share in shares]


def _receive(process: Any) -> Any:
    try:
        answer = process.recv()
    except EOFError:
        raise MirrorError("a process of the benchmark has ended: its error is above") from None
    return answer


def _serve(parent: Any, alias: str, partitions: int, batch: bytes) -> None:
    """Be the broker of cluster A, with records once their number is told, or of cluster B."""
    asyncio.run(_serve_until_killed(parent, alias, partitions, batch))


async def _serve_until_killed(parent: Any, alias: str, partitions: int, batch: bytes) -> None:
    sources = tuple(RepeatedLog(batch) for _ in range(partitions if alias == "A" else 0))
    broker = StubBroker(_source_topics(sources) if sources else _target_topics(partitions))
    host, port = await broker.start()
    parent.send(f"{host}:{port}")
    batches = await asyncio.to_thread(parent.recv)
    for log in sources:
        log.fill(batches)
    broker.grown()
    await asyncio.Event().wait()


def _source_topics(logs: tuple[RepeatedLog, ...]) -> list[StubTopic]:
    return [StubTopic(_TOPIC, logs), StubTopic("mm2-offset-syncs.B.internal", (StubLog(),))]


def _target_topics(partitions: int) -> list[StubTopic]:
    state = StubLog()
    state.append(_grants(partitions), kept=True)
    return [
        StubTopic(_REMOTE, tuple(StubLog() for _ in range(partitions)), kept=False),
        StubTopic(state_topic(_FLOW.source), (state,)),
        StubTopic(segments_topic(_FLOW.source), (StubLog(),), kept=False),
        StubTopic(statistics_topic(_FLOW.source), (StubLog(),), kept=False),
    ]


def _grants(partitions: int) -> bytes:
    """What a coordinator writes before it hands partitions out."""
    grant = GrantRecord(epoch=1, lease_ms=MirrorSettings.model_fields["lease_ms"].default, owner=_OWNER)
    value = json.dumps(GRANT.write(grant)).encode()
    keys = (GRANT.key(TopicPartition(_TOPIC, number)).encode() for number in range(partitions))
    now_ms = time.time_ns() // 1_000_000
    records = [DecodedRecord(number, now_ms, record_tail(key, value, ())) for number, key in enumerate(keys)]
    return bytes(encode(records, "none").view)


def _replicate(parent: Any, addresses: tuple[str, str], numbers: range, end: int, idle_s: float = 0.0) -> None:
    """Copy partitions up to ``end``; tells the parent when it is ready, and then what the copy cost.

    ``idle_s``: it has nothing to copy for so long, and tells what that cost.
    """
    asyncio.run(_replicate_to(parent, addresses, numbers, end, idle_s))


async def _replicate_to(parent: Any, addresses: tuple[str, str], numbers: range, end: int, idle_s: float) -> None:
    clusters = {
        alias: ClusterSettings(alias=alias, bootstrap_servers=(address,))
        for alias, address in zip(_FLOW[:2], addresses, strict=True)
    }
    settings = MirrorSettings(clusters=clusters, flows=(FlowSettings(name=_FLOW, enabled=True),))
    engine = ReplicationEngine(settings, f"replicator-{numbers.start}", "127.0.0.1")
    await engine.start()
    engine.assign([_assignment(number) for number in numbers])

    async def reached(wanted: int, limit_s: float) -> None:
        deadline_s, there = time.monotonic() + limit_s, set[int]()
        while len(there) < len(numbers):
            if time.monotonic() > deadline_s:
                raise MirrorError(f"not all was copied within {limit_s:g} s")
            await asyncio.sleep(_REPORT_S)
            there |= {
                report.partition.partition
                for report in engine.report().partitions
                if report.state == "copying" and report.source_end >= 0 and report.position >= wanted
            }

    await reached(0, _READY_S)
    parent.send("ready")
    began_s = time.process_time()
    if not idle_s:
        await reached(end, _COPIED_S)
    for _ in range(round(idle_s / _REPORT_S)):
        await asyncio.sleep(_REPORT_S)
        engine.report()
    parent.send(time.process_time() - began_s)


def _assignment(number: int) -> Assignment:
    topic, remote = StubTopic(_TOPIC, ()), StubTopic(_REMOTE, ())
    return Assignment(
        partition=FlowPartition(_FLOW, _TOPIC, number),
        source_topic_id=topic_id_text(topic.id),
        target=TopicPartition(_REMOTE, number),
        target_topic_id=topic_id_text(remote.id),
        producer_id=1,
        producer_epoch=0,
        anchor=OffsetPair(0, 0),
        epoch=1,
        owner=_OWNER,
        max_message_bytes=_MAX_MESSAGE_BYTES,
    )
