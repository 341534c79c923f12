"""What a user writes to change records on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar

from mirror_ray.transforms.record import FIELDS, Record

#: Of one record: itself or a changed one, None where it is left out, an exception where the transform fails on it.
Result = Record | None | Exception


class Transform(ABC):
    """Changes, or leaves out, the records of a batch. Subclass it; the options of the configuration go to ``__init__``.

    It is built once in each process for each flow, and called from one thread. It must be quick: while it runs, the
    process copies nothing else.
    """

    #: Grows whenever the same record may come out in another way than before, for whatever reason.
    version: ClassVar[str]
    #: Whether what comes out of a record depends on that record and the options alone: not on its neighbours, on the
    #: time, on chance, or on what was called before. Then copies are exactly once; else at least once.
    pure: ClassVar[bool]
    #: The remote topics that it sends records to by ``Record.to``: all of them, known once it is built.
    destinations: Collection[str] = ()
    #: Which of key, value and headers it looks at, or makes others of. What no transform of a topic reads goes on as it
    #: is, is not copied out of its batch, and can't be looked into.
    reads: Collection[str] = FIELDS

    @abstractmethod
    def __call__(self, records: Sequence[Record]) -> Sequence[Result]:
        """One result for each record, in their order.

        If an exception is raised, instead of returned in a record's place, it is called for one record at a time.
        """


def fields_read(transform: object) -> frozenset[str]:
    """What a transform reads by its own word: all, where a subclass has another ``__call__`` and says nothing of it."""
    said = (vars(kind) for kind in type(transform).__mro__ if "reads" in vars(kind) or "__call__" in vars(kind))
    if "reads" in getattr(transform, "__dict__", ()) or "reads" in next(said, ()):
        return frozenset(getattr(transform, "reads", FIELDS))
    return frozenset(FIELDS)
