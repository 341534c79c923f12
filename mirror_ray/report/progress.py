"""How far a report has read the statistics topic, and which files hold what it read.

A run stages files, moves them into place, and only then writes the next ``ReadProgress``: files that no progress names
are left over from a run that was killed. What such a run had read is read again.
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
    """What was read of one partition of one statistics topic: of one topic id, for a topic may be created anew.

    And of one log: it ends before what was read of it once it was cut, or was created anew on a target that has no
    topic ids. Then it is read again from its start; intervals that stand there twice are counted once.
    """

    topic_id: str
    partition: int
    #: Offsets [first, next).
    first: int
    next: int
    #: Offsets that retention deleted before a run came by.
    missed: int = 0
    #: How often the log had been found to end before what was read of it.
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
    """All that a run needs of the runs before."""

    flow: str
    topic: str
    version: int = VERSION
    logs: tuple[LogRead, ...] = ()
    #: Below the report's directory; each is whole, and holds what none of the others does.
    files: tuple[str, ...] = ()
    #: Days (``YYYY-MM-DD``) that somebody deleted while older ones were kept.
    deleted: tuple[str, ...] = ()
    #: From this day on (``YYYY-MM-DD``) the hours have to be computed again; None: all are as the files say.
    stale_from: str | None = None
    bad: Mapping[str, int] = field(default_factory=dict)
    bad_examples: tuple[BadRecord, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def of_plain(cls, document: Mapping[str, Any]) -> Self:
        """From JSON.

        Raises:
            ValueError: Of another version, or none of ours.
        """
        try:
            if document["version"] != VERSION:
                raise ValueError(f"its version is {document['version']}, known is {VERSION}")
            told = dict(document) | {
                "logs": tuple(LogRead(**each) for each in document["logs"]),
                "files": tuple(document["files"]),
                "deleted": tuple(document.get("deleted", ())),
                "bad_examples": tuple(BadRecord(**each) for each in document["bad_examples"]),
            }
            return cls(**told)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it lacks something: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """What a run has read and put into place."""

    logs: tuple[LogRead, ...]
    files: tuple[str, ...]
    #: Days of the records in it.
    days: tuple[str, ...]
    bad: Mapping[str, int]
    bad_examples: tuple[BadRecord, ...]


def to_read(progress: ReadProgress, topic_id: str, bounds: Mapping[int, tuple[int, int]]) -> tuple[LogRead, ...]:
    """The offsets that are new, by partition of the topic; those of a partition without anything new are left out.

    A log that went back and has grown again, beyond what was read of it, can't be told from one that only grew.

    Args:
        progress: Of the runs before.
        topic_id: Of the topic as it is now.
        bounds: Each partition's first offset and end.
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
        # Of a topic that is new to us nothing was missed that we could know of.
        position = start if before is None else before.next
        first = max(start, position)
        if first < end or first > position:
            new = LogRead(topic_id=topic_id, partition=partition, first=first, next=end, missed=first - position)
            found.append(new if before is None else replace(new, went_back=before.went_back))
    return tuple(found)


def advanced(progress: ReadProgress, batch: ReadBatch) -> ReadProgress:
    """After a run whose files are in place."""
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
    """Once the hours are as the files say."""
    return replace(progress, stale_from=None)


def left_over(progress: ReadProgress, present: Iterable[str]) -> set[str]:
    """Files that a run put into place, and was killed before it wrote so."""
    return set(present) - set(progress.files)


def missing(progress: ReadProgress, present: Iterable[str]) -> set[str]:
    """Files that should be there. Days that somebody deleted on purpose are gone whole, and are not missed."""
    there = set(present)
    days = {_day(name) for name in there}
    return {name for name in progress.files if name not in there and _day(name) in days}


def without(progress: ReadProgress, gone: Iterable[str]) -> ReadProgress:
    """Once files were deleted.

    Days that are older than all that is left are forgotten. The others are not: their offsets look like untold records.
    """
    lost = set(gone)
    files = tuple(name for name in progress.files if name not in lost)
    oldest = min(map(_day, files), default="")
    days = {*progress.deleted, *map(_day, lost)}
    return replace(progress, files=files, deleted=tuple(sorted(day for day in days if files and day > oldest)))


def file_name(day: str, logs: Iterable[LogRead], number: int) -> str:
    """Where a run keeps one day's intervals: by the offsets that it read.

    Spark passes over names that begin with an underscore, as topic ids may.
    """
    spans = "_".join(
        f"{log.partition}.{log.first}-{log.next}{f'.{log.went_back}' * (log.went_back > 0)}" for log in logs
    )
    topic_id = next((log.topic_id for log in logs), "")
    return f"intervals/date={day}/read-{topic_id}-{spans}-{number}.parquet"


def _day(name: str) -> str:
    return name.partition("/date=")[2].partition("/")[0]
