"""A real copy, and copies of it with one fault: each is named, at the right offsets, and the clean one is equal."""

from __future__ import annotations

import uuid
from dataclasses import replace

from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.ranges import ComparedRange
from mirror_ray.verification.run import verification
from tests.support.clusters import TopicMaker
from tests.support.kafka import Message, produce, produce_transactions, sample_messages
from tests.support.reading import Record, read_placed
from tests.support.replicated import FLOW, Replicated
from tests.support.verifying import FAULTS, plant, verified, with_copy


async def test_each_fault_in_the_copy_of_a_transactional_topic(flow: Replicated, make_topic: TopicMaker) -> None:
    """Aborted records are on the source alone; every kind of fault, in many small ranges and in one."""
    topic = make_topic(flow.source, topic_config={"retention.ms": "-1"})
    remote = flow.remote(topic, retention_ms="-1")
    transactions = [(sample_messages(40, first=40 * number), number % 4 != 1) for number in range(16)]
    produce_transactions(flow.source.confluent_config(), topic, transactions, transactional_id=uuid.uuid4().hex)
    await flow.copy([topic])
    source = [offset for offset, _ in read_placed(flow.source.confluent_config(), topic)[0]]

    for size in (50, 100_000):
        report = await verified(flow.settings(), [topic], range_offsets=size)
        assert report.equal, report.plain()
        (partition,) = report.partitions
        assert (partition.checked.records, partition.checked.target_records) == (len(source), len(source))
        assert (partition.checked.ranges > 5) == (size == 50)

    async with verification(flow.settings(), FLOW) as verifying:
        for at, (name, (fault, kind, fields)) in enumerate(FAULTS.items(), 170):
            planted = plant(flow.target, remote, fault, at)
            for size in (50, 100_000):
                (job,) = await verifying.planner.plan(VerifyRequest(topics=(topic,), range_offsets=size))
                (verdict,) = await verifying.verify([await with_copy(verifying, job, planted, flow.target)])
                assert verdict.outcome == "differs"
                (found,) = verdict.checked.differences
                places = (source[at], at + 1 if kind == "doubled" else at)
                assert (found.kind, found.source_offset, found.target_offset) == (kind, *places), (name, size, found)
                assert found.fields == fields
                assert f"{planted}-0" in verdict.text


async def test_doubles_that_end_a_range(flow: Replicated, make_topic: TopicMaker) -> None:
    """As an answer that was lost leaves them: the map knows the second ones, so the first ones end the range before."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    produce(flow.source.confluent_config(), topic, sample_messages(100))
    await flow.copy([topic])

    def again(records: list[Record], at: int) -> None:
        records[at + 10 : at + 10] = records[at : at + 10]

    planted = plant(flow.target, remote, again, 40)
    async with verification(flow.settings(), FLOW) as verifying:
        (job,) = await verifying.planner.plan(VerifyRequest(topics=(topic,)))
        job = await with_copy(verifying, job, planted, flow.target)
        ranges = ComparedRange(0, 40, 0, 50), ComparedRange(40, 100, 50, 110)
        (found,) = await verifying.verify([replace(job, ranges=ranges, chosen=(0, 1))])
    assert [
        (difference.kind, difference.source_offset, difference.target_offset)
        for difference in found.checked.differences
    ] == [("doubled", at, at) for at in range(40, 50)]


async def test_a_sample_of_the_ranges(flow: Replicated, make_topic: TopicMaker) -> None:
    """So many of them are looked at, and it says how many."""
    topic = make_topic(flow.source)
    flow.remote(topic)
    produce_transactions(
        flow.source.confluent_config(), topic, [(sample_messages(1000), True)], transactional_id=uuid.uuid4().hex
    )
    await flow.copy([topic])
    report = await verified(flow.settings(), [topic], range_offsets=50, sample=0.25)
    (partition,) = report.partitions
    assert report.equal
    assert partition.checked.ranges == 20
    assert partition.checked.ranges_checked == 5
    assert partition.checked.records == 250


async def test_each_fault_in_the_copy_of_a_compacted_topic(flow: Replicated, make_topic: TopicMaker) -> None:
    """Told by the last record of the key, or where that is as it should be, by the record and its place."""
    topic = make_topic(flow.source, topic_config={"cleanup.policy": "compact"})
    remote = flow.remote(topic, cleanup_policy="compact")
    messages = [Message(b"%d" % n, b"key %d" % (n % 40)) for n in range(100)]
    produce(flow.source.confluent_config(), topic, [*messages, Message(None, b"key 7")])
    await flow.copy([topic])
    async with verification(flow.settings(), FLOW) as verifying:
        (job,) = await verifying.planner.plan(VerifyRequest(topics=(topic,)))
        named = {}
        for name, (fault, _, _) in FAULTS.items():
            planted = plant(flow.target, remote, fault, 70)
            (verdict,) = await verifying.verify([await with_copy(verifying, job, planted, flow.target)])
            assert verdict.compacted
            named[name] = [
                (difference.kind, difference.source_offset, difference.target_offset)
                for difference in verdict.checked.differences
            ]
    assert named == {
        # The one before it is the last one then.
        "missing": [("changed", 70, 30)],
        "doubled": [("doubled", 70, 70)],
        "swapped": [("moved", 71, 70)],
        "foreign": [("extra", 101, 70)],
        "key": [("changed", 70, 30), ("extra", 101, 70)],
        "value": [("changed", 70, 70)],
        "headers": [("changed", 70, 70)],
        "timestamp": [("changed", 70, 70)],
    }
