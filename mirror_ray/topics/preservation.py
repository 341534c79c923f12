"""What it costs to begin topics whose offsets are preserved, and from which length on a topic is not begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.model.durations import about
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.topics.discovery_rules import TargetLogBounds

#: What a broker takes of a prefix, in one of its partitions or in several together. Measured with Kafka 4.3.0 on two
#: cores that the broker shared with its client, by ``kafka.offset_prefix.fill_prefix`` of 60 to 200 million offsets in
#: one partition and in four: 7.5 to 12.5 million; on a busier machine 6 to 7 million. The least of them counts.
PREFIX_OFFSETS_PER_S: Final = 6_000_000
#: Runs of records that are copied of one partition, and by one replicator of several partitions together. Measured as
#: above, with a compacted source that had a gap behind every record or every tenth: 410 to 950 and 1,630 to 1,700.
RUNS_PER_S: Final = 400
RUNS_PER_S_TOGETHER: Final = 1_600


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservationCost:
    """What it costs to begin a topic whose offsets are preserved; of its partitions, those without progress count."""

    topic: str
    remote_topic: str
    partitions: int
    #: Offsets to fill before the first records, in all partitions together, and in the one with the most.
    prefix_offsets: int
    longest_prefix: int
    #: Runs of records without an offset gap that are to be copied, by a sample; None: the topic is not compacted, is
    #: empty, or can't be read.
    runs: int | None = None
    #: Those of the partition with the most.
    longest_runs: int | None = None

    @property
    def prefix_s(self) -> float:
        """Seconds until the prefixes are filled."""
        return prefix_seconds(self.prefix_offsets)

    @property
    def runs_s(self) -> float | None:
        """Seconds that the runs take one replicator; None: they are not known."""
        if self.runs is None or self.longest_runs is None:
            return None
        return max(self.longest_runs / RUNS_PER_S, self.runs / RUNS_PER_S_TOGETHER)

    def refusal(self, most: int) -> str | None:
        """As ``prefix_refusal``."""
        return prefix_refusal(self.topic, self.remote_topic, self.prefix_offsets, most)


def missing_prefixes(starts: Mapping[int, tuple[int, TargetLogBounds]]) -> dict[int, int]:
    """By partition, the offsets that its remote log lacks before the first offset to copy; 0 or more.

    ``starts`` has that offset, and where the remote log begins and ends.
    """
    return {number: max(0, start - bounds.end) for number, (start, bounds) in starts.items()}


def prefix_seconds(offsets: int) -> float:
    """How long it takes to fill so many offsets; partitions of one broker share its time."""
    return offsets / PREFIX_OFFSETS_PER_S


def prefix_refusal(topic: str, remote: str, offsets: int, most: int) -> str | None:
    """Why a topic is not begun: it lacks more ``offsets`` than ``most``, offsets.prefix.max; None: it is begun."""
    if offsets <= most:
        return None
    return (
        f"remote topic {remote} has to be filled with {offsets:,} offsets before its first records can have those of "
        f"{topic}, which takes about {about(prefix_seconds(offsets))}: more than offsets.prefix.max = {most:,} allows, "
        f"so it is not begun. Ways out: set offsets.prefix.max to {offsets} or more, or leave {topic} out of "
        "offsets.topics, so that it is copied at offsets of its own"
    )


class RunSample(NamedTuple):
    """A part of a partition: how many offsets it has, how many of them were read, and the gaps that end in those."""

    offsets: int
    read: int
    gaps: int


def sample_of(batches: Sequence[RecordBatch], start: int, end: int) -> RunSample:
    """The gaps in ``batches``, which were fetched at ``start``, as a sample of the offsets up to ``end``.

    A run that goes on at ``start`` is not one of the sample's own: however little was read, it stands for no others.

    Raises:
        CorruptBatchError: A batch does not parse.
    """
    read = min(end, batches[-1].next_offset) if batches else end
    gaps, following = 0, start
    for first, behind in _spans(batches):
        if behind > start and first < read:
            gaps += first > following
            following = behind
    return RunSample(end - start, max(0, read - start), gaps)


def runs_in(samples: Iterable[RunSample]) -> int:
    """The estimated runs of the partition that these are samples of: one more than it has gaps."""
    return 1 + round(sum(sample.gaps * sample.offsets / sample.read for sample in samples if sample.read))


def _spans(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, int]]:
    """Where records without a gap between them begin, and the offset behind them; one may begin where another ends."""
    for batch in batches:
        if batch.is_control or batch.is_empty:
            continue
        if batch.magic == 2 and not batch.is_compacted:
            yield batch.base_offset, batch.next_offset
        else:
            yield from ((record.offset, record.offset + 1) for record in records_of(batch))
