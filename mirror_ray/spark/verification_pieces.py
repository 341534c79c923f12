"""Divides what is compared among tasks of Spark, and puts their results together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.model.errors import MirrorError
from mirror_ray.transforms.met_schemas import NOTHING_MET
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.producers import ProducerOwners

#: Source offsets of a piece; a range is in one piece, however large.
PIECE_OFFSETS: Final = 250_000
#: Pieces that a task compares at once: what one waits for another computes meanwhile.
PIECES_OF_A_TASK: Final = 4
#: Into how many parts a piece is divided whose keys are too many, and parts of a partition at most.
_PARTS: Final = 4
_MOST_PARTS: Final = 4096


@dataclass(frozen=True, slots=True)
class JobPiece:
    """A part of a job: some of its ranges, or of a compacted partition some of the keys."""

    #: The job's number.
    number: int
    #: With these ranges alone, and without what is not needed to compare them.
    job: CompareJob
    #: What they are in the whole job.
    chosen: tuple[int, ...]

    def divided(self) -> list[JobPiece]:
        """The same keys in several pieces.

        Raises:
            MirrorError: They were divided as far as they can be.
        """
        number, count = self.job.key_part
        if count >= _MOST_PARTS:
            raise MirrorError(
                f"{self.job.source}: one part of {count:,} of its keys is still too large for a task of Spark: compare"
                " less at once, with --sample, or compare the topic without --spark"
            )
        parts = (number * _PARTS + part for part in range(_PARTS))
        return [replace(self, job=replace(self.job, key_part=(part, count * _PARTS))) for part in parts]


def pieces_of(number: int, job: CompareJob, most_offsets: int = PIECE_OFFSETS) -> Iterator[JobPiece]:
    """Cut a job into pieces of about ``most_offsets`` source offsets; a compacted partition is one piece."""
    job = replace(job, skipped_ranges=(), uncompared=(), owners=ProducerOwners())
    if job.compacted:
        yield JobPiece(number, job, job.chosen)
        return
    offsets, chosen = 0, []
    for index in job.chosen:
        chosen.append(index)
        offsets += job.ranges[index].source_end - job.ranges[index].source
        if offsets >= most_offsets:
            yield _piece(number, job, chosen)
            offsets, chosen = 0, []
    if chosen:
        yield _piece(number, job, chosen)


def _piece(number: int, job: CompareJob, chosen: Sequence[int]) -> JobPiece:
    ranges = tuple(job.ranges[index] for index in chosen)
    return JobPiece(number, replace(job, ranges=ranges, chosen=tuple(range(len(ranges)))), tuple(chosen))


def tasks_of(pieces: Sequence[JobPiece], cores: int) -> list[list[JobPiece]]:
    """Give each task several pieces, if there are enough for all cores; a compacted partition has one for itself."""
    ranges = [piece for piece in pieces if not piece.job.compacted]
    count = max(-(-len(ranges) // PIECES_OF_A_TASK), min(len(ranges), cores))
    # Neighbours are in different tasks: one partition's leader does not serve all pieces of a task.
    return [[piece] for piece in pieces if piece.job.compacted] + [ranges[at::count] for at in range(count)]


def merged(results: Iterable[tuple[JobPiece, FirstPassResult]]) -> FirstPassResult:
    """The result of a job from those of all its pieces."""
    records = target_records = keys = 0
    ranges: list[int] = []
    same, met = False, NOTHING_MET
    differing: set[bytes] = set()
    for piece, result in results:
        records += result.records
        target_records += result.target_records
        ranges += [piece.chosen[index] for index in result.ranges]
        keys += result.keys
        # The first part of the keys compares the order of all.
        same |= result.same and piece.job.key_part[0] == 0
        differing |= result.differing_keys
        met |= result.met
    return FirstPassResult(
        records=records,
        target_records=target_records,
        ranges=tuple(sorted(ranges)),
        keys=keys,
        same=same,
        differing_keys=frozenset(differing),
        met=met,
    )
