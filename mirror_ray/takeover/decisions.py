"""Where each partition goes on that MM2 has copied so far, and why one must not be taken over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mirror_ray.model.names import TopicPartition
from mirror_ray.takeover.mm2_progress import ProgressMatch

#: ``taken``: goes on at ``begin``. ``left``: nothing to take over, `up` treats it as it treats any partition.
#: ``kept``: the flow's state accounts for it already. ``refused``: stays as it is, and `up` refuses it.
Outcome = Literal["taken", "left", "kept", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFindings:
    """One partition of a selected topic, as it was found with MM2 stopped. Offsets are positions, but for ``noted``."""

    source: TopicPartition
    #: Source offset of the last record that MM2 noted as copied; None: it noted none.
    noted: int | None
    source_start: int
    source_end: int
    #: Of the remote partition; None: there is no such partition.
    target: tuple[int, int] | None
    #: What the contents say; None: there is nothing to compare, or it was not looked for.
    match: ProgressMatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverDecision:
    """What becomes of one partition."""

    source: TopicPartition
    remote: str
    outcome: Outcome
    noted: int | None = None
    #: The source offset to copy on from; None: not decided here.
    begin: int | None = None
    target_end: int | None = None
    #: Records that MM2 copied behind its note, found on the target.
    found: int = 0
    #: At most so many records of the source may be doubled, of those that are there now.
    doubtful: int = 0
    #: At most so many may never be copied if copying goes on behind MM2's note.
    lost: int = 0
    remarks: tuple[str, ...] = field(default=())

    @property
    def exact(self) -> bool:
        """Whether nothing is doubled and nothing lost, for sure."""
        return not self.doubtful and not self.lost


def needs_contents(facts: PartitionFindings) -> bool:
    """Whether the contents of both sides are to be compared."""
    if facts.target is None or facts.target[0] == facts.target[1]:
        return False
    return refusal(facts) is None and facts.source_start < facts.source_end


def refusal(facts: PartitionFindings) -> str | None:
    """Why a partition must not be taken over by its offsets alone; None where it may."""
    if facts.target is None or facts.target[1] == 0 or facts.noted is None or facts.noted < facts.source_end:
        return None
    return (
        f"MirrorMaker 2 noted offset {facts.noted} of {facts.source}, which ends at {facts.source_end}: the topic was "
        f"created anew since, or lost data. Delete the remote topic to copy it anew, or exclude the topic"
    )


def decide(facts: PartitionFindings, remote: str, *, known: bool = False, force: bool = False) -> TakeoverDecision:
    """What becomes of a partition that the flow's state does not account for.

    ``known``: another partition shows that MM2 copied this very topic. ``force``: it goes on behind MM2's note also
    where nothing shows that.

    Guarantees: without ``force`` no record of the source is passed over, unless some record of the topic was found to
    be on the target.
    """
    row = TakeoverDecision(
        source=facts.source,
        remote=remote,
        outcome="left",
        noted=facts.noted,
        target_end=None if facts.target is None else facts.target[1],
    )
    if facts.target is None or facts.target[1] == 0:
        noted = "" if facts.noted is None else f", though MirrorMaker 2 noted offset {facts.noted}"
        there = "there is no such remote partition yet" if facts.target is None else "the remote partition is empty"
        return replace(row, remarks=(f"{there}{noted}: all that the source has is copied",) if noted else ())
    reason = refusal(facts)
    if reason is not None:
        return replace(row, outcome="refused", remarks=(reason,))
    if facts.noted is None:
        return _without_note(row, facts)
    following = facts.noted + 1
    lost = 0 if known else _unaccounted(facts, facts.noted)
    if lost and not force:
        return replace(row, outcome="refused", lost=lost, remarks=(_why_unaccounted(facts, remote, lost),))
    behind = max(0, facts.source_end - max(following, facts.source_start))
    remarks = []
    if lost:
        remarks.append(f"nothing shows that MirrorMaker 2 copied this topic: up to {lost} records may be lost")
    if facts.source_start > following:
        remarks.append(
            f"source offsets {following} to {facts.source_start - 1} were deleted on the source: unless they are on "
            f"the target `up` says source_removed, and goes by trouble.policy"
        )
    found = facts.match
    if found is None:
        unknown = "the remote partition holds no record to compare with" if behind else None
        told = _told(remarks, unknown, behind)
        return replace(row, outcome="taken", begin=following, doubtful=behind, lost=lost, remarks=told)
    doubtful = min(found.doubtful, behind)
    return replace(
        row,
        outcome="taken",
        begin=_behind(facts, found),
        found=found.copied,
        doubtful=doubtful,
        lost=lost,
        remarks=_told(remarks, found.reason, doubtful),
    )


def shows_the_topic(facts: PartitionFindings) -> bool:
    """Whether a record that MM2 copied from this partition was found on the target, so that the topic is the same."""
    return facts.match is not None and facts.match.alike


def _unaccounted(facts: PartitionFindings, noted: int) -> int:
    """Records of the source up to MM2's note, if nothing shows that it is this topic that they were copied from."""
    return 0 if shows_the_topic(facts) else max(0, noted + 1 - facts.source_start)


def _why_unaccounted(facts: PartitionFindings, remote: str, lost: int) -> str:
    seen = facts.match.reason if facts.match is not None else "the remote partition holds no record to compare with"
    topic = facts.source.topic
    return (
        f"{seen}: if {topic} was created anew since MirrorMaker 2 noted offset {facts.noted}, up to {lost} records may "
        f"be lost by going on behind that. Delete the remote topic to copy it anew, or exclude the topic; where you "
        f"know that it is the same topic ({remote} is changed by transforms, say), --force goes on behind the note"
    )


def _without_note(row: TakeoverDecision, facts: PartitionFindings) -> TakeoverDecision:
    """MM2 was killed before its first note, or its notes are gone: it would begin anew."""
    if facts.match is not None and facts.match.copied and facts.match.exact:
        remark = "MirrorMaker 2 noted nothing; the remote partition holds the source's first records"
        found = facts.match.copied
        return replace(row, outcome="taken", begin=_behind(facts, facts.match), found=found, remarks=(remark,))
    reason = (
        f"MirrorMaker 2 noted no offset of {facts.source}, and what {row.remote} holds is not, from its beginning, "
        f"what the source holds: nothing says where to go on. Delete the remote topic to copy it anew, or exclude it"
    )
    return replace(row, outcome="refused", remarks=(reason,))


def _behind(facts: PartitionFindings, found: ProgressMatch) -> int:
    if found.next_offset is not None:
        return found.next_offset
    return 0 if facts.noted is None else facts.noted + 1


def _told(remarks: list[str], reason: str | None, doubtful: int) -> tuple[str, ...]:
    if reason is None:
        return tuple(remarks)
    doubled = f"; up to {doubtful} records may be doubled" if doubtful else ""
    return (*remarks, f"{reason}{doubled}")


def all_or_nothing(rows: Iterable[TakeoverDecision]) -> list[TakeoverDecision]:
    """The rows of a flow: a topic of which one partition is refused is refused as a whole."""
    every = list(rows)
    why: Mapping[str, TakeoverDecision] = {row.source.topic: row for row in every if row.outcome == "refused"}

    def settled(row: TakeoverDecision) -> TakeoverDecision:
        first = why.get(row.source.topic)
        if first is None or row.outcome not in ("taken", "left"):
            return row
        return replace(row, outcome="refused", begin=None, remarks=(*row.remarks, f"because of {first.source}"))

    return [settled(row) for row in every]
