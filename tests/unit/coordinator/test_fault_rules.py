"""What each policy means for each kind of trouble."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.coordinator.fault_rules import policies_for, recount_failed, refused_policy, still_holds
from mirror_ray.model.fault import FAULT_KINDS, TOPIC_KINDS, FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution
from tests.support.fault_actions import CONTEXT, RECORD, action, declined, found, pair


@pytest.mark.parametrize("policy", ["skip", "resync"])
def test_removed_records_are_passed_over(policy: FaultPolicy) -> None:
    """Nothing on the target changes, and the producer goes on."""
    done = action("source_removed", policy, source_from=100, source_to=150, resume=OffsetPair(150, 90))
    assert pair(done) == (150, 90)
    assert not done.new_producer
    assert done.empty_to is None
    assert done.gap.source_to == 150


def test_truncated_source() -> None:
    """Skip goes back to where both agree and leaves the surplus; resync begins from nothing."""
    assert pair(action("source_truncated", "skip", source_from=80, source_to=100, resume=OffsetPair(80, 90))) == (
        80,
        90,
    )
    anew = action("source_truncated", "resync", source_from=80, source_to=100)
    assert (pair(anew), anew.empty_to, anew.new_producer) == ((5, 90), 90, True)


def test_records_behind_the_last_pair_are_not_guessed_at() -> None:
    """Where the copier has not counted what the target holds, going on elsewhere could lose or double records."""
    ahead = replace(CONTEXT, target_end=95)
    assert "95" in declined("source_removed", "skip", context=ahead, resume=OffsetPair(150, 90))
    assert "95" in declined("source_truncated", "skip", context=ahead, resume=OffsetPair(80, 90))


def test_recreated_source() -> None:
    """The new topic's records stand behind the old one's; the boundary is recorded."""
    context = replace(CONTEXT, source_topic_id=TopicId("s2"), source_start=0)
    behind = action("source_recreated", "skip", context=context)
    assert (pair(behind), behind.record.source_topic_id, behind.gap.target_from) == ((0, 90), "s2", 90)
    anew = action("source_recreated", "resync", context=context)
    assert (pair(anew), anew.empty_to, anew.record.source_topic_id) == ((0, 90), 90, "s2")


def test_what_preserved_offsets_allow() -> None:
    """The target's log can only grow: what would take other offsets than the source's is refused, and says the way."""
    offered = {kind: policies_for(kind, shared=False, preserved=True) for kind in FAULT_KINDS}
    assert {kind: policies for kind, policies in offered.items() if policies} == {
        "source_removed": ("skip", "resync"),
        "target_missing": ("resync",),
        "target_recreated": ("resync",),
        "target_truncated": ("skip", "resync"),
        "record_refused": ("skip",),
        "transform_failed": ("skip",),
    }
    preserved = replace(RECORD, preserve_offsets=True)
    assert "delete the remote topic" in declined("source_truncated", "skip", preserved)
    short = replace(CONTEXT, target_end=70)
    assert pair(action("target_truncated", "skip", preserved, short, target_from=70)) == (100, 70)
    resumed = action("target_truncated", "resync", preserved, short, target_from=70)
    assert (pair(resumed), resumed.new_producer, resumed.anew) == ((70, 70), True, False)
    empty = replace(CONTEXT, target_topic_id=TopicId("t2"), target_end=0)
    assert action("target_missing", "resync", preserved, empty).anew
    assert not action("target_missing", "resync", context=empty).anew


@pytest.mark.parametrize("kind", ["target_missing", "target_recreated"])
def test_new_remote_topic(kind: FaultKind) -> None:
    """An empty one is gone on in, or filled from the start; one with records is never touched."""
    empty = replace(CONTEXT, target_topic_id=TopicId("t2"), target_end=0)
    assert pair(action(kind, "skip", context=empty)) == (100, 0)
    assert pair(action(kind, "resync", context=empty)) == (5, 0)
    assert action(kind, "skip", context=empty).record.target_topic_id == "t2"
    filled = replace(empty, target_end=3)
    policies: tuple[FaultPolicy, ...] = ("skip", "resync")
    for policy in policies:
        assert "nothing accounts for" in declined(kind, policy, context=filled)


def test_truncated_target() -> None:
    """Skip goes on behind what is left; resync looks for the place from the first pair, while the source has it."""
    short = replace(CONTEXT, target_end=70)
    on = action("target_truncated", "skip", context=short, target_from=70, target_to=90)
    assert (pair(on), on.new_producer) == ((100, 70), True)
    done = action("target_truncated", "resync", context=short)
    assert (pair(done), done.empty_to, done.record.recounting) == ((10, 0), None, True)
    gone = action("target_truncated", "resync", context=replace(short, source_start=11))
    assert (pair(gone), gone.empty_to) == ((11, 70), 70)
    again = action("target_truncated", "resync", replace(RECORD, recounting=True), short)
    assert (pair(again), again.empty_to, again.record.recounting) == ((5, 70), 70, False)
    assert recount_failed(done.record, PartitionFault(kind="copy_lost", text=""))
    assert not recount_failed(done.record.at(OffsetPair(60, 50)), PartitionFault(kind="copy_lost", text=""))


def test_foreign_records() -> None:
    """Skip keeps the pair and accepts what stands behind it; resync empties and begins by another producer."""
    longer = replace(CONTEXT, target_end=97)
    counted = action("target_foreign", "skip", context=longer, target_from=90, target_to=97)
    assert (pair(counted), counted.record.sequence, counted.record.foreign_to) == ((100, 90), 90, 97)
    assert not counted.record.shared
    anew = action("target_foreign", "resync", context=longer)
    assert (pair(anew), anew.empty_to, anew.new_producer) == ((5, 97), 97, True)


def test_refused_records_are_left_out_once() -> None:
    """Ranges that touch are one; beyond a hundred, those behind the position are forgotten with the old origin."""
    first = action("record_refused", "skip", source_from=100, source_to=101).record
    second = action("record_refused", "skip", first, source_from=101, source_to=103).record
    assert second.skip == ((100, 103),)
    assert second.origin == RECORD.origin
    many = replace(RECORD, source_offset=500, skip=tuple((number, number + 1) for number in range(0, 300, 3)))
    pruned = action("record_refused", "skip", many, source_from=500, source_to=501).record
    assert pruned.skip == ((500, 501),)
    assert pruned.origin == many.pair


def test_answers_that_would_do_harm_are_none() -> None:
    """A lost place is not skipped, a refused record not sent again, and nobody else's records are deleted."""
    assert policies_for("copy_lost", shared=False) == ("resync",)
    assert policies_for("record_refused", shared=False) == ("skip",)
    assert policies_for("source_truncated", shared=True) == ("skip",)
    assert policies_for("target_foreign", shared=True) == ("skip",)
    assert all(refused_policy(kind, "stop", shared=False) for kind in FAULT_KINDS)


@pytest.mark.parametrize("kind", FAULT_KINDS)
@pytest.mark.parametrize("shared", [False, True])
def test_every_trouble_has_an_answer(kind: FaultKind, shared: bool) -> None:
    """Nothing waits for a decision that nobody can take."""
    assert policies_for(kind, shared=shared)


def test_a_place_that_is_lost_in_a_shared_topic() -> None:
    """The copy goes on from the last pair, behind what is there, by a producer that the broker does not know."""
    shared = replace(RECORD, shared=True, sequence=55, producer_id=7, skip=((120, 121),))
    longer = replace(CONTEXT, target_end=300)
    again = action("copy_lost", "resync", shared, longer, source_from=100, target_from=90)
    assert (pair(again), again.record.sequence, again.new_producer, again.empty_to) == ((100, 300), 0, True, None)
    assert (again.gap.target_from, again.gap.target_to) == (90, 300)
    assert again.record.skip == ((120, 121),)
    behind = action("copy_lost", "resync", shared, replace(longer, source_start=150))
    assert pair(behind)[0] == 150


def test_a_place_that_is_lost_in_a_topic_that_is_empty() -> None:
    """Nothing is there that could be doubled: what was removed from it does not come again."""
    empty = replace(CONTEXT, target_start=95, target_end=95)
    again = action("copy_lost", "resync", context=empty, source_from=100, target_from=90)
    assert (pair(again), again.empty_to, again.new_producer) == ((100, 95), None, True)
    assert pair(action("copy_lost", "resync", replace(RECORD, routes_from=20), empty))[0] == 100


def test_a_shared_topic_that_lost_records_of_ours() -> None:
    """Skip leaves them out; resync counts what is left of ours from the first pair on, else copies all again."""
    shared = replace(RECORD, shared=True, sequence=55, foreign_to=-1).with_origin(OffsetPair(10, 0, 3))
    longer = replace(CONTEXT, target_end=300)
    on = action("target_truncated", "skip", shared, longer, target_from=80, target_to=90)
    assert (pair(on), on.record.sequence, on.new_producer) == ((100, 300), 0, True)
    counted = action("target_truncated", "resync", shared, longer, target_from=80, target_to=90)
    assert (pair(counted), counted.record.pair.sequence, counted.record.recounting) == ((10, 0), 3, True)
    assert (counted.empty_to, counted.new_producer) == (None, False)
    failed = action("copy_lost", "resync", counted.record, longer)
    assert (pair(failed), failed.empty_to, failed.record.recounting) == ((10, 300), None, False)
    gone = action("target_truncated", "resync", shared, replace(longer, source_start=50))
    assert (pair(gone), gone.empty_to) == ((50, 300), None)


@given(
    kind=st.sampled_from(FAULT_KINDS),
    policy=st.sampled_from(("skip", "resync")),
    shared=st.booleans(),
    recounting=st.booleans(),
    target_end=st.integers(0, 200),
    source_start=st.integers(0, 200),
)
def test_every_remedy_is_sound(
    kind: FaultKind, policy: FaultPolicy, shared: bool, recounting: bool, target_end: int, source_start: int
) -> None:
    """It never places the copy beyond the target's end unless it waits there, nor empties what others wrote."""
    context = replace(CONTEXT, target_end=target_end, source_start=source_start)
    record = replace(RECORD, shared=shared, sequence=5 if shared else None, recounting=recounting and not shared)
    resume = OffsetPair(110, 90)
    done = found(kind, policy, record, context, resume, source_from=90, source_to=110, target_from=80, target_to=90)
    if isinstance(done, str):
        assert done
        return
    assert done.gap.policy == policy
    assert done.empty_to in (None, target_end)
    assert not (shared and done.empty_to is not None)
    if done.new_producer:
        assert done.record.target_offset == target_end
    if done.empty_to is not None:
        assert done.record.source_offset == source_start
        assert done.new_producer


@pytest.mark.parametrize(
    ("kind", "latest", "stands"),
    [
        ("source_removed", OffsetPair(100, 90), True),
        ("source_removed", OffsetPair(101, 91), False),
        ("record_refused", OffsetPair(100, 90), True),
        ("record_refused", OffsetPair(120, 110), True),
        ("record_refused", OffsetPair(121, 111), False),
        ("target_missing", OffsetPair(101, 91), True),
    ],
)
def test_decision_stands_until_the_copy_has_gone_on(kind: FaultKind, latest: OffsetPair, stands: bool) -> None:
    """Up to a refused record a copy may come after it was decided; a topic is decided as a whole, wherever it was."""
    trouble = PartitionFault(kind=kind, text="x", source_from=120, source_to=121)
    assert (
        still_holds(FaultResolution(trouble=trouble, policy="skip", time_ms=1), OffsetPair(100, 90), latest) is stands
    )


def test_a_flow_with_routes_is_not_copied_anew_from_before_they_began() -> None:
    """What would go to them now, and did not then, would be nowhere; a new source topic begins anew for all."""
    routing = replace(RECORD, routes_from=20)
    assert "its routes take records from source offset 20 on" in declined("copy_lost", "resync", routing)
    assert pair(action("copy_lost", "resync", replace(RECORD, routes_from=5)))[0] == 5
    again = action("source_recreated", "resync", routing, replace(CONTEXT, source_topic_id=TopicId("s2")))
    assert (again.record.source_offset, again.record.routes_from) == (5, 5)


def test_a_route_is_copied_anew_from_where_it_began() -> None:
    """What lies before is its flow's; of another topic of the source everything may be for it."""
    route = replace(RECORD, begins_at=20)
    assert pair(action("copy_lost", "resync", route))[0] == 20
    empty = replace(CONTEXT, target_topic_id=TopicId("t2"), target_end=0)
    assert pair(action("target_missing", "resync", route, empty)) == (20, 0)
    for policy in ("skip", "resync"):
        context = replace(CONTEXT, source_topic_id=TopicId("s2"))
        again = action("source_recreated", policy, route, context).record
        assert (again.source_offset, again.begins_at) == (5, 5)


def test_where_the_source_lost_records_the_new_ones_are_for_routes_too() -> None:
    """They take records from there on."""
    done = action("source_truncated", "skip", replace(RECORD, routes_from=95), resume=OffsetPair(60, 90))
    assert (pair(done)[0], done.record.routes_from) == (60, 60)


@pytest.mark.parametrize("policy", ["skip", "resync"])
def test_a_new_source_has_records_of_its_own_at_the_offsets_that_were_left_out(policy: FaultPolicy) -> None:
    """What was left out of the former topic is no reason to leave out what the new one has there."""
    record = replace(RECORD, skip=((120, 121), (500, 501)), aligned_at=100)
    context = replace(CONTEXT, source_topic_id=TopicId("s2"))
    anew = action("source_recreated", policy, record, context).record
    assert (anew.skip, anew.aligned_at) == ((), None)


def test_behind_its_cut_a_truncated_source_has_other_records() -> None:
    """Only what was left out below the cut stays so; a route may be sent what comes behind it."""
    record = replace(RECORD, skip=((50, 51), (75, 90), (500, 501)), begins_at=95, aligned_at=100)
    cut = action("source_truncated", "skip", record, resume=OffsetPair(80, 90)).record
    assert (cut.skip, cut.begins_at, cut.aligned_at) == (((50, 51), (75, 80)), 80, None)


def test_records_that_were_removed_take_nothing_with_them() -> None:
    """The log is the same one: what was left out of it is still not to be copied."""
    record = replace(RECORD, skip=((500, 501),), aligned_at=100)
    assert action("source_removed", "skip", record, resume=OffsetPair(150, 90)).record.skip == ((500, 501),)


@pytest.mark.parametrize("kind", ["target_missing", "target_recreated"])
@pytest.mark.parametrize("policy", ["skip", "resync"])
def test_a_new_remote_topic_has_accepted_nothing_and_refused_nothing(kind: FaultKind, policy: FaultPolicy) -> None:
    """Strangers' records in it are reported; records that the former one refused may be taken."""
    context = replace(CONTEXT, target_topic_id=TopicId("t2"), target_end=0)
    record = replace(RECORD, foreign_to=700, skip=((120, 121),))
    anew = action(kind, policy, record, context).record
    assert (anew.foreign_to, anew.skip) == (-1, ())


def test_strangers_are_accepted_up_to_where_the_target_was_cut() -> None:
    """What others write there afterwards is reported."""
    record = replace(RECORD, foreign_to=85)
    short = replace(CONTEXT, target_end=70)
    for policy in ("skip", "resync"):
        assert action("target_truncated", policy, record, short).record.foreign_to == 70


@pytest.mark.parametrize("kind", sorted(set(FAULT_KINDS) - TOPIC_KINDS))
@pytest.mark.parametrize("policy", ["skip", "resync"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_an_answer_is_not_carried_out_on_another_topic(kind: FaultKind, policy: FaultPolicy, side: str) -> None:
    """It was given for the topics that were there; what somebody wrote into a new one is not deleted."""
    another = TopicId("x")
    context = (
        replace(CONTEXT, source_topic_id=another) if side == "source" else replace(CONTEXT, target_topic_id=another)
    )
    declined(kind, policy, context=context, resume=OffsetPair(110, 90), source_from=90, source_to=110)


#: Which log each field of a partition's record speaks of; what names neither outlives both.
OF_SOURCE = {"source_topic_id", "source_offset", "source_epoch", "skip", "routes_from", "begins_at", "aligned_at"}
OF_TARGET = {"target_topic_id", "target_offset", "sequence", "foreign_to", "target_epoch", "settled"}
OF_TARGET |= {"producer_id", "producer_epoch"}
OF_BOTH = {field.name for field in fields(PartitionRecord) if field.name.startswith(("origin_", "transforms_"))}
OF_NEITHER = {"target_topic", "shared", "transforms", "recounting", "end_offset", "preserve_offsets"}


def test_every_note_goes_with_the_log_that_it_is_about() -> None:
    """Whatever is noted: nothing of a log that is gone is left in the record. A new field has to be thought of here."""
    assert {field.name for field in fields(PartitionRecord)} == OF_SOURCE | OF_TARGET | OF_BOTH | OF_NEITHER
    noted = replace(
        RECORD, sequence=5, source_epoch=4, target_epoch=6, settled=True,
        producer_id=7, producer_epoch=2, foreign_to=85, skip=((120, 121),),
        routes_from=95, begins_at=95, aligned_at=100, origin_sequence=3, transforms="x", transforms_source_offset=99,
        transforms_target_offset=89,
    )  # fmt: skip
    another_source = replace(CONTEXT, source_topic_id=TopicId("s2"))
    another_target = replace(CONTEXT, target_topic_id=TopicId("t2"), target_end=0)
    for policy in ("skip", "resync"):
        done = action("source_recreated", policy, noted, another_source).record
        assert {name: getattr(done, name) for name in OF_SOURCE} == {
            "source_topic_id": "s2", "source_offset": 5, "source_epoch": -1, "skip": (), "routes_from": 5,
            "begins_at": 5, "aligned_at": None,
        }  # fmt: skip
        assert (done.origin, done.transforms_source_offset) == (done.pair, 5)
    gone = action("target_missing", "skip", noted, another_target)
    assert gone.new_producer
    assert {name: getattr(gone.record, name) for name in OF_TARGET - {"producer_id", "producer_epoch"}} == {
        "target_topic_id": "t2", "target_offset": 0, "sequence": None, "foreign_to": -1, "target_epoch": -1,
        "settled": False,
    }  # fmt: skip
    assert (gone.record.origin, gone.record.transforms_target_offset) == (gone.record.pair, 0)
