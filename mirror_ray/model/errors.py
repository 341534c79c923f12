"""Every error that mirror-ray raises on purpose.

::

    MirrorError                  exit code
    ├── ConfigError              2   the file or the command line is wrong; names the key
    ├── ClusterUnreachableError  3   no broker of a cluster answers
    │   └── NotLetInError        3   one does, and refuses us, or shows that it is not the one that is meant
    ├── TopicMissingError        4   a topic that is to be read is not there
    ├── KafkaProtocolError       4   a broker answered with an error code
    ├── CorruptBatchError        4   bytes that are not what their checksum says
    ├── CorruptRecordError       4   an internal record (heartbeat, checkpoint, offset sync) that does not parse
    ├── IncompleteBatchError     4   a batch larger than what was fetched; names the bytes to ask for
    ├── RecordTooLargeError      4   a record larger than the target takes, however it is packed
    ├── StateFencedError         4   another coordinator has taken over a flow's state
    ├── NoAnswerError            4   a system that runs did not answer in time
    ├── NotRunningError          1   no running system of that name was found
    └── NotReadyError            1   something must be done or waited for first; the text says what

Each text names the thing and the next step. All of them survive pickling between processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

_T = TypeVar("_T")


class MirrorError(Exception):
    """Base of the errors that a user of mirror-ray is meant to read."""

    exit_code: ClassVar[int] = 4


class ConfigError(MirrorError):
    """The configuration can't be used as it is. ``problems`` holds one sentence each, naming the key."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each thing that is wrong."""
        return tuple(str(arg) for arg in self.args)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ClusterUnreachableError(MirrorError):
    """No broker of the cluster could be reached, or it did not let us in."""

    exit_code: ClassVar[int] = 3


class AccessDeniedError(ClusterUnreachableError):
    """A broker refused our credentials or certificate, or we refused it. Nothing but a change helps."""


class TopicMissingError(MirrorError):
    """A topic that is to be read does not exist on its cluster, or we may not even see it."""


class CorruptBatchError(MirrorError):
    """Bytes from a broker that don't match their CRC or don't parse. Never copied on."""


class CorruptRecordError(MirrorError):
    """The key or value of one of MM2's internal records is not in its format."""


class IncompleteBatchError(MirrorError):
    """A fetch brought less than one batch: ``size_bytes`` is what it needs at least, ``fetched_bytes`` what came."""

    def __init__(self, size_bytes: int, fetched_bytes: int) -> None:
        super().__init__(size_bytes, fetched_bytes)
        self.size_bytes = size_bytes
        self.fetched_bytes = fetched_bytes

    def __str__(self) -> str:
        return (
            f"the first batch needs {self.size_bytes} bytes and {self.fetched_bytes} were fetched: "
            f"raise max.partition.fetch.bytes to at least {self.size_bytes}"
        )


class RecordTooLargeError(MirrorError):
    """The record at ``offset`` of the source is over the target's ``max.message.bytes``, even in a batch of its own."""

    def __init__(self, offset: int, size_bytes: int, max_bytes: int) -> None:
        super().__init__(offset, size_bytes, max_bytes)
        self.offset = offset
        self.size_bytes = size_bytes
        self.max_bytes = max_bytes

    def __str__(self) -> str:
        return (
            f"the record at source offset {self.offset} takes {self.size_bytes} bytes as a batch of its own, "
            f"the target topic takes {self.max_bytes}: raise the target topic's max.message.bytes"
        )


class NotRunningError(MirrorError):
    """There is no running mirror-ray of the name that was asked for."""

    exit_code: ClassVar[int] = 1


class NotReadyError(MirrorError):
    """What was asked for must not be done now. Nothing was changed."""

    exit_code: ClassVar[int] = 1


class StateFencedError(MirrorError):
    """Another coordinator has opened the flow's state since: this one must stop acting for the flow."""


class NoAnswerError(MirrorError):
    """The coordinator of a running system did not answer in time."""


class KafkaProtocolError(MirrorError):
    """A broker answered with an error code.

    ``code`` is Kafka's number, ``name`` its constant as in Kafka's documentation, ``what`` the request and its object.
    """

    def __init__(self, code: int, name: str, what: str) -> None:
        super().__init__(code, name, what)
        self.code = code
        self.name = name
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}: {self.name} ({self.code})"


def reached(outcomes: Iterable[_T | BaseException]) -> list[_T]:
    """What several clusters or registries answered, that were asked at once.

    Raises:
        ClusterUnreachableError: Some did not answer; the text names all of them.
        BaseException: What failed in another way.
    """
    answers, unreachable = list[_T](), dict[str, None]()
    for outcome in outcomes:
        if isinstance(outcome, ClusterUnreachableError):
            unreachable[str(outcome)] = None
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            answers.append(outcome)
    if unreachable:
        raise ClusterUnreachableError("\n".join(unreachable))
    return answers
