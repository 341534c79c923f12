"""How far a report has read the statistics topic, and which files have the records.

A run stages files, moves them into place, and only then writes the next ``ReadProgress``: files that no progress names
are left over from a run that was killed. The next run reads those records again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

VERSION = 1
#: Of records that could not be used, so many are named.
EXAMPLES = 10

#: Why a record of the topic was not used.
BAD_KINDS = ("not_json", "other_version", "other_flow", "malformed")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """The offsets that were read of one partition of a statistics topic, of one topic id.

    A log that ends before the offsets that were read was truncated, or was created again on a target without topic ids.
    Then it is read again from its start; intervals that occur twice are counted once.
    """

    topic_id: str
    partition: int
    #: Offsets [first, next).
    first: int
    next: int
    #: Offsets that retention deleted before a run read them.
    missed: int = 0
    #: How often the log was found to end before the offsets that were read.
    went_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A record of the topic that was not used."""

    topic_id: str
    partition: int
    offset: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProgress:
    """What a run needs to know of earlier runs."""

    flow: str
    topic: str
    version: int = VERSION
    logs: tuple[LogRead, ...] = ()
    #: Paths in the report's directory; every file is complete, and no record is in two of them.
    files: tuple[str, ...] = ()
    #: Days (``YYYY-MM-DD``) that somebody deleted while older ones were kept.
    deleted: tuple[str, ...] = ()
    #: From this day on (``YYYY-MM-DD``) the hours have to be computed again; None: all are up to date.
    stale_from: str | None = None
    bad: Mapping[str, int] = field(default_factory=dict)
    bad_examples: tuple[BadRecord, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def of_plain(cls, document: Mapping[str, Any]) -> Self:
        """From JSON. Raises ValueError if it is of another version, or malformed."""
        try:
            if document["version"] != VERSION:
                raise ValueError(f"its version is {document['version']}, known is {VERSION}")
            fields = dict(document) | {
                "logs": tuple(LogRead(**log) for log in document["logs"]),
                "files": tuple(document["files"]),
                "deleted": tuple(document.get("deleted", ())),
                "bad_examples": tuple(BadRecord(**record) for record in document["bad_examples"]),
            }
            return cls(**fields)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it lacks something: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """What a run has read and moved into place."""

    logs: tuple[LogRead, ...]
    files: tuple[str, ...]
    #: Days of the records in it.
    days: tuple[str, ...]
    bad: Mapping[str, int]
    bad_examples: tuple[BadRecord, ...]


def to_read(progress: ReadProgress, topic_id: str, bounds: Mapping[int, tuple[int, int]]) -> tuple[LogRead, ...]:
    """The new offsets of each partition of the topic; partitions without any are left out.

    A log that was truncated and has grown again, beyond the offsets that were read, looks like one that only grew.
    ``bounds``: each partition's log start offset and log end offset.
    """
    # Sorted, so the newest log of each partition.
    known = {log.partition: log for log in progress.logs if log.topic_id == topic_id}
    found = []
    for partition, (start, end) in sorted(bounds.items()):
        before = known.get(partition)
        if before is not None and end < before.next:
            went_back = before.went_back + 1
            found.append(LogRead(topic_id=topic_id, partition=partition, first=start, next=end, went_back=went_back))
            continue
        # Of a topic that is read for the first time nothing counts as missed.
        position = start if before is None else before.next
        first = max(start, position)
        if first < end or first > position:
            new = LogRead(topic_id=topic_id, partition=partition, first=first, next=end, missed=first - position)
            found.append(new if before is None else replace(new, went_back=before.went_back))
    return tuple(found)


def advanced(progress: ReadProgress, batch: ReadBatch) -> ReadProgress:
    """The progress after a run whose files are in place."""
    logs = {(log.topic_id, log.partition, log.went_back): log for log in progress.logs}
    for new in batch.logs:
        key = (new.topic_id, new.partition, new.went_back)
        old = logs.get(key)
        logs[key] = new if old is None else replace(old, next=new.next, missed=old.missed + new.missed)
    days = [day for day in (progress.stale_from, *batch.days) if day is not None]
    kinds = {*progress.bad, *batch.bad}
    return replace(
        progress,
        logs=tuple(logs[key] for key in sorted(logs)),
        files=tuple(sorted({*progress.files, *batch.files})),
        stale_from=min(days, default=None),
        bad={kind: progress.bad.get(kind, 0) + batch.bad.get(kind, 0) for kind in sorted(kinds)},
        bad_examples=(*progress.bad_examples, *batch.bad_examples)[:EXAMPLES],
    )


def recomputed(progress: ReadProgress) -> ReadProgress:
    """The progress once the hours are up to date."""
    return replace(progress, stale_from=None)


def left_over(progress: ReadProgress, present: Iterable[str]) -> set[str]:
    """Files of a run that was killed before it wrote its progress."""
    return set(present) - set(progress.files)


def missing(progress: ReadProgress, present: Iterable[str]) -> set[str]:
    """Files that should be there. Whole days that are absent were deleted on purpose, and are not missing."""
    found = set(present)
    days = set(map(_day, found))
    return {name for name in progress.files if name not in found and _day(name) in days}


def without(progress: ReadProgress, files: Iterable[str]) -> ReadProgress:
    """The progress once these files were deleted.

    Deleted days that are older than all others are forgotten; of the others the offsets look like untold records.
    """
    lost = set(files)
    left = tuple(name for name in progress.files if name not in lost)
    oldest = min(map(_day, left), default="")
    days = {*progress.deleted, *map(_day, lost)}
    return replace(progress, files=left, deleted=tuple(sorted(day for day in days if left and day > oldest)))


def file_name(day: str, logs: Iterable[LogRead], number: int) -> str:
    """The file of a run's intervals of one day, named after the offsets that it read.

    Spark ignores names that begin with an underscore, as topic ids may.
    """
    spans = "_".join(
        f"{log.partition}.{log.first}-{log.next}{f'.{log.went_back}' * (log.went_back > 0)}" for log in logs
    )
    topic_id = next((log.topic_id for log in logs), "")
    return f"intervals/date={day}/read-{topic_id}-{spans}-{number}.parquet"


def _day(name: str) -> str:
    return name.partition("/date=")[2].partition("/")[0]
