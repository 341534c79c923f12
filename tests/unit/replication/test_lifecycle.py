"""What becomes of a partition after a refusal, a loss, a stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from mirror_ray.model.errors import MirrorError
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.broker_loops import BrokerLoops
from mirror_ray.replication.lifecycle import Lifecycle
from mirror_ray.replication.offset_gaps import OffsetGap
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.retry import RetryTimes
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.replication.throttle import FetchThrottle
from tests.support.batches import batch, marker
from tests.support.factories import assignment, establish, fetched, produced, replication


class Idle:
    """Workers that have every copy and do nothing."""

    def __init__(self) -> None:
        self.detached: list[PartitionReplication] = []

    def sends(self, copy: PartitionReplication) -> bool:
        """Until it is taken away."""
        return copy not in self.detached

    def detach(self, copy: PartitionReplication) -> None:
        """Remember it."""
        self.detached.append(copy)

    def room_made(self) -> None:
        """Nobody waits."""

    def touch(self, copy: PartitionReplication) -> None:
        """It is not fetched."""

    def stop_fetching(self, copy: PartitionReplication) -> None:
        """It is not fetched."""

    def schedule(self, copy: PartitionReplication) -> None:
        """Nothing is sent."""


class Scene:
    """A flow with one partition, whose clock stands at ``now_s``."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.events: list[str] = []
        self.gaps: list[OffsetGap] = []
        self.changed: list[PartitionReplication] = []
        self.workers = Idle()
        self.life = Lifecycle(
            cast(BrokerLoops, self.workers),
            FetchThrottle(),
            now_s=lambda: self.now_s,
            wake=lambda: None,
            fill=lambda copy, gap: self.gaps.append(gap),
            on_changed=self.changed.append,
            on_event=lambda level, text: self.events.append(f"{level}: {text}"),
        )
        self.copy = replication()
        self.life.add(self.copy)

    @property
    def retry(self) -> RetryTimes:
        """The partition's."""
        return self.life.retries[self.copy]


@pytest.fixture
def scene() -> Scene:
    """A new one."""
    return Scene()


def test_answers_behind_the_first_refusal_say_nothing_new(scene: Scene) -> None:
    """A pipeline of a hundred refused batches is one event and one failure."""
    for _ in range(100):
        scene.life.refused(scene.copy, "TOPIC_AUTHORIZATION_FAILED", None, leader_known=False)
    assert len(scene.events) == 1
    assert scene.events[0].startswith("error: ")
    assert "refuses records: TOPIC_AUTHORIZATION_FAILED" in scene.events[0]
    assert scene.copy.state is CopyState.STOPPED
    assert scene.retry.failures == 1


@pytest.mark.parametrize("leader_known", [True, False])
def test_a_leader_that_was_named_is_not_looked_up(scene: Scene, leader_known: bool) -> None:
    """The log end of the target is read from it at once."""
    scene.life.stale_target = False
    scene.life.refused(scene.copy, "NOT_LEADER_OR_FOLLOWER", None, leader_known=leader_known)
    assert scene.life.stale_target is not leader_known


def test_the_same_stop_is_told_once(scene: Scene) -> None:
    """Until the target takes something; each look at it comes later than the one before."""
    waits = []
    for _ in range(6):
        scene.life.failed(scene.copy, MirrorError("it is forbidden"))
        waits.append(scene.retry.at_s - scene.now_s)
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert len(scene.events) == 1
    scene.life.acknowledged(scene.copy)
    scene.life.failed(scene.copy, MirrorError("it is forbidden"))
    assert len(scene.events) == 2


def _looked_at_again(scene: Scene) -> None:
    scene.life.failed(scene.copy, MirrorError("it is forbidden"))
    establish(scene.copy, TargetLog(end=0))


def test_looking_again_is_no_recovery(scene: Scene) -> None:
    """A stopped partition is reported as such, with its reason, until the target takes something."""
    _looked_at_again(scene)
    scene.copy.source_answered(1, 1)
    fetched(scene.copy, batch(0, [(0, b"value")]))
    sent = scene.copy.take()
    report = scene.copy.report()
    assert (report.state, report.reason) == ("stopped", "it is forbidden")
    scene.copy.answered(sent.target_offset)
    report = scene.copy.report()
    assert (report.state, report.reason) == ("copying", None)


def test_an_empty_answer_of_the_source_is_a_recovery(scene: Scene) -> None:
    """Where there is nothing to be copied, nothing will ever be taken."""
    _looked_at_again(scene)
    assert scene.copy.report().state == "stopped"
    scene.copy.source_answered(0, 0)
    fetched(scene.copy)
    report = scene.copy.report()
    assert (report.state, report.reason) == ("copying", None)


def test_a_position_that_the_end_of_the_source_tells_is_published(scene: Scene) -> None:
    """The target has all that the source has; nothing more comes that would have the offset map published."""
    assigned = assignment(anchor=OffsetPair(10, 10), preserve_offsets=True, transactional_id="replicator")
    copy = replication(assigned)
    scene.life.add(copy)
    sent = produced(batch(10, [(0, b"a")]), assigned.producer_id, 10)
    establish(copy, TargetLog(end=12, tail=sent, complete_from=10, filled=(OffsetGap(11, 12),)))
    copy.source_answered(12, 12)
    fetched(copy, batch(10, [(0, b"a")]), marker(11, 5, commit=True))
    assert copy.asks_source
    scene.changed.clear()
    copy.source_bounds(0, 12, 12)
    scene.life.source_answered(copy)
    assert copy.segments.take(copy.acknowledged.source_offset)
    assert scene.changed == [copy]


def test_what_passes_is_told_when_it_lasts(scene: Scene) -> None:
    """A refusal for a moment leaves no trace in the status; the sixth in a row does."""
    for _ in range(5):
        scene.life.interrupted(scene.copy, "the leader moved")
        assert scene.copy.reason is None
    scene.life.interrupted(scene.copy, "the leader moved")
    assert scene.copy.reason == "the leader moved"
    assert not scene.events
    assert scene.retry.at_s - scene.now_s <= 2.0


def test_what_is_said_of_a_removed_partition_is_ignored(scene: Scene) -> None:
    """Answers come late."""
    scene.life.remove(scene.copy)
    scene.life.refused(scene.copy, "NOT_LEADER_OR_FOLLOWER", None, leader_known=False)
    scene.life.interrupted(scene.copy, "late")
    scene.life.failed(scene.copy, MirrorError("late"))
    scene.life.acknowledged(scene.copy)
    assert not scene.events
    assert not scene.life.copies


def test_a_sequence_that_is_refused_for_good_is_a_fault(scene: Scene) -> None:
    """Once may pass by itself; again and again, with the place as it is, somebody has to decide, until it is taken."""
    refused = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    for _ in range(5):
        establish(scene.copy, TargetLog(end=0))
        scene.life.back_off(scene.copy, refused, None)
        assert scene.copy.fault is None
    establish(scene.copy, TargetLog(end=0))
    scene.life.back_off(scene.copy, refused, None)
    assert scene.copy.fault is not None
    assert scene.copy.fault.kind == "copy_lost"
    scene.copy.established(TargetLog(end=0))
    scene.life.established(scene.copy)
    scene.copy.placed()
    report = scene.copy.report()
    assert (report.state, report.trouble is None) == ("stopped", False)
    fetched(scene.copy, batch(0, [(0, b"value")]))
    scene.copy.answered(scene.copy.take().target_offset)
    assert scene.copy.fault is None


def _sent(scene: Scene, number: int = 1) -> None:
    """So many batches are under way."""
    establish(scene.copy, TargetLog(end=0))
    fetched(scene.copy, *(batch(first, [(0, b"value")]) for first in range(number)))
    for _ in range(number):
        scene.copy.take()


@pytest.mark.parametrize("how", ["removed", "connection lost"])
def test_no_answer_is_awaited_that_can_not_come(scene: Scene, how: str) -> None:
    """What was under way has an unknown outcome, which the target's end tells."""
    _sent(scene)
    if how == "removed":
        scene.life.remove(scene.copy)
    else:
        scene.life.lost(scene.copy)
    assert not scene.copy.pipeline.in_flight
    assert scene.copy.pipeline.unanswered


def test_nobody_sends_while_the_end_is_read_or_it_has_stopped(scene: Scene) -> None:
    """What is to be sent then is not known yet."""
    scene.life.interrupted(scene.copy, "the leader moved")
    assert scene.workers.detached == [scene.copy]
    scene.life.failed(scene.copy, MirrorError("it is forbidden"))
    assert scene.workers.detached == [scene.copy] * 2


_BESIDE_A_GAP: dict[str, tuple[Callable[[Scene], None], CopyState]] = {
    "nothing": (lambda scene: None, CopyState.ESTABLISHING),
    "the source's leader goes": (lambda scene: scene.life.leader_moved(scene.copy, -1), CopyState.ESTABLISHING),
    "the source lacks it": (lambda scene: scene.copy.out_of_range(), CopyState.ESTABLISHING),
    "a batch is corrupt": (lambda scene: scene.copy.block(MirrorError("corrupt")), CopyState.ESTABLISHING),
    "it is released": (lambda scene: scene.life.drain(scene.copy), CopyState.LEAVING),
    "it is removed": (lambda scene: scene.life.remove(scene.copy), CopyState.REMOVED),
}


@pytest.mark.parametrize(("what", "finish"), _BESIDE_A_GAP.values(), ids=_BESIDE_A_GAP)
def test_a_gap_that_was_not_filled_is_looked_at_again(
    scene: Scene, what: Callable[[Scene], None], finish: CopyState
) -> None:
    """Whatever has become of the partition meanwhile: who fills gaps must not fail by it."""
    assigned = assignment(anchor=OffsetPair(10, 10), preserve_offsets=True, transactional_id="replicator")
    scene.copy = replication(assigned)
    scene.life.add(scene.copy)
    establish(scene.copy, TargetLog(end=10))
    fetched(scene.copy, batch(12, [(0, b"value")]))
    scene.copy.fill(OffsetGap(10, 12))
    what(scene)
    assert not scene.copy.needs_end
    scene.life.gap_filled(scene.copy, None, "no answer")
    assert scene.copy.state is finish
    assert scene.copy.needs_end is (finish is CopyState.ESTABLISHING)
    assert scene.copy.pipeline.settled


def test_a_topic_that_stays_away_is_missing(scene: Scene) -> None:
    """For a moment it may be one that was just created."""
    for _ in range(6):
        scene.life.back_off(scene.copy, "UNKNOWN_TOPIC_ID", None)
        assert scene.copy.fault is None
    scene.life.back_off(scene.copy, "UNKNOWN_TOPIC_ID", None)
    assert scene.copy.fault is not None
    assert scene.copy.fault.kind == "target_missing"


def test_what_is_before_an_obstacle_is_answered_first(scene: Scene) -> None:
    """Then it stops, and says why."""
    _sent(scene, 2)
    scene.copy.block(MirrorError("a corrupt batch"))
    scene.copy.answered(0)
    scene.life.acknowledged(scene.copy)
    assert scene.copy.state is CopyState.BLOCKED
    scene.copy.answered(1)
    scene.life.acknowledged(scene.copy)
    assert (scene.copy.state, scene.copy.report().reason) == (CopyState.STOPPED, "a corrupt batch")
