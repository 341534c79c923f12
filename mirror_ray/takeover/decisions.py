"""Where copying goes on in each partition that MM2 has copied so far, or why one must not be taken over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    #: What the contents tell; None: there is nothing to compare, or it was not compared.
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
    #: Records that MM2 copied behind its source offset, found on the target.
    found: int = 0
    #: At most so many records of the source may be doubled, of those that are there now.
    doubtful: int = 0
    #: At most so many may never be copied if copying goes on behind MM2's source offset.
    lost: int = 0
    remarks: tuple[str, ...] = ()


def needs_contents(findings: PartitionFindings) -> bool:
    """Whether the contents of both sides are to be compared."""
    if findings.target is None or findings.target[0] == findings.target[1]:
        return False
    return refusal(findings) is None and findings.source_start < findings.source_end


def refusal(findings: PartitionFindings) -> str | None:
    """Why a partition must not be taken over by its offsets alone; None where it may."""
    noted, end = findings.noted, findings.source_end
    if findings.target is None or findings.target[1] == 0 or noted is None or noted < end:
        return None
    return (
        f"MirrorMaker 2 noted offset {noted} of {findings.source}, which ends at {end}: the topic was "
        f"created anew since, or lost data. Delete the remote topic to copy it anew, or exclude the topic"
    )


def decide(findings: PartitionFindings, remote: str, *, known: bool = False, force: bool = False) -> TakeoverDecision:
    """What becomes of a partition that the flow's state does not account for.

    ``known``: another partition shows that MM2 copied this very topic. ``force``: it goes on behind MM2's
    source offset also where nothing shows that.

    Guarantees: without ``force`` no record of the source is passed over, unless some record of the topic was found to
    be on the target.
    """
    row = TakeoverDecision(
        source=findings.source,
        remote=remote,
        outcome="left",
        noted=findings.noted,
        target_end=None if findings.target is None else findings.target[1],
    )
    if findings.target is None or findings.target[1] == 0:
        noted = "" if findings.noted is None else f", though MirrorMaker 2 noted offset {findings.noted}"
        there = "there is no such remote partition yet" if findings.target is None else "the remote partition is empty"
        return replace(row, remarks=(f"{there}{noted}: all that the source has is copied",) if noted else ())
    reason = refusal(findings)
    if reason is not None:
        return replace(row, outcome="refused", remarks=(reason,))
    if findings.noted is None:
        return _without_offset(row, findings)
    following = findings.noted + 1
    lost = 0 if known or shows_the_topic(findings) else max(0, following - findings.source_start)
    if lost and not force:
        return replace(row, outcome="refused", lost=lost, remarks=(_why_unaccounted(findings, remote, lost),))
    behind = max(0, findings.source_end - max(following, findings.source_start))
    remarks = []
    if lost:
        remarks.append(f"nothing shows that MirrorMaker 2 copied this topic: up to {lost} records may be lost")
    if findings.source_start > following:
        remarks.append(
            f"source offsets {following} to {findings.source_start - 1} were deleted on the source: unless they are on "
            f"the target `up` says source_removed, and goes by trouble.policy"
        )
    found = findings.match
    if found is None:
        unknown = "the remote partition holds no record to compare with" if behind else None
        with_reason = _with_reason(remarks, unknown, behind)
        return replace(row, outcome="taken", begin=following, doubtful=behind, lost=lost, remarks=with_reason)
    doubtful = min(found.doubtful, behind)
    return replace(
        row,
        outcome="taken",
        begin=_behind(findings, found),
        found=found.copied,
        doubtful=doubtful,
        lost=lost,
        remarks=_with_reason(remarks, found.reason, doubtful),
    )


def shows_the_topic(findings: PartitionFindings) -> bool:
    """Whether a record that MM2 copied from this partition was found on the target, so that the topic is the same."""
    return findings.match is not None and findings.match.alike


def _why_unaccounted(findings: PartitionFindings, remote: str, lost: int) -> str:
    match, topic, noted = findings.match, findings.source.topic, findings.noted
    why = match.reason if match is not None else "the remote partition holds no record to compare with"
    return (
        f"{why}: if {topic} was created anew since MirrorMaker 2 noted offset {noted}, up to {lost} records may "
        f"be lost by going on behind that. Delete the remote topic to copy it anew, or exclude the topic; where you "
        f"know that it is the same topic ({remote} is changed by transforms, say), --force goes on behind the note"
    )


def _without_offset(row: TakeoverDecision, findings: PartitionFindings) -> TakeoverDecision:
    """MM2 was killed before it committed a source offset, or those are gone: it would begin anew."""
    if findings.match is not None and findings.match.copied and findings.match.exact:
        remark = "MirrorMaker 2 noted nothing; the remote partition holds the source's first records"
        found = findings.match.copied
        return replace(row, outcome="taken", begin=_behind(findings, findings.match), found=found, remarks=(remark,))
    reason = (
        f"MirrorMaker 2 noted no offset of {findings.source}, and what {row.remote} holds is not, from its beginning, "
        f"what the source holds: nothing says where to go on. Delete the remote topic to copy it anew, or exclude it"
    )
    return replace(row, outcome="refused", remarks=(reason,))


def _behind(findings: PartitionFindings, found: ProgressMatch) -> int:
    if found.next_offset is not None:
        return found.next_offset
    return 0 if findings.noted is None else findings.noted + 1


def _with_reason(remarks: list[str], reason: str | None, doubtful: int) -> tuple[str, ...]:
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
