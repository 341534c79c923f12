"""Gives the target's subjects what holds for the source's: compatibility levels, and modes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import islice
from typing import Final, NamedTuple

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.registration import SchemaRegistration
from mirror_ray.registry.registry import Mode, SchemaRegistry
from mirror_ray.registry.schema import Subject
from mirror_ray.registry.subjects import SubjectRules
from mirror_ray.registry.together import each, pieces

#: Subjects that are settled again in one round: ten thousand of them, in turn, are no load.
_AGAIN_TOGETHER: Final = 4
#: The modes in which a subject takes nothing: those alone are copied.
CLOSED: Final[frozenset[Mode]] = frozenset({"READONLY", "READONLY_OVERRIDE"})
#: Set by whoever imports into the subject: never touched.
_OTHERS: Final[frozenset[Mode]] = frozenset({"IMPORT", "FORWARD"})


class ModeChange(NamedTuple):
    """The own mode that a subject is to have; None: none, so that the global one holds."""

    mode: Mode | None


class SubjectSettings:
    """What holds for subjects of the target beside their versions. One call at a time."""

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        rules: SubjectRules,
        registration: SchemaRegistration,
        changes: RecordedChanges,
        *,
        way: IdsWay,
    ) -> None:
        """``registration``: says which levels were lowered. ``changes``: of the target.

        ``way``: in ``same`` the target's subjects are in mode IMPORT, and get no other one.
        """
        self._source, self._target, self._rules = source, target, rules
        self._registration, self._changes = registration, changes
        self._copies_modes = way == "translated"
        #: Why what holds for subjects on the source does not on the target.
        self.problems: dict[Subject, str] = {}
        #: The levels of the target's subjects.
        self._levels: dict[Subject, str] = {}
        #: Their own modes.
        self._modes: dict[Subject, Mode | None] = {}
        #: Those that were opened for a moment.
        self._opened: set[Subject] = set()
        #: Subjects of the source that are to be settled again.
        self._due: dict[Subject, None] = {}

    async def open(self, targets: Collection[Subject]) -> None:
        """Have subjects of the target take something: those that were closed as the source's are, are opened."""
        if self._copies_modes:
            await each(sorted(targets), self._open)

    def is_urgent(self, subject: Subject) -> bool:
        """Whether the target's subject is new, or lets too much in for the moment."""
        target = self._rules.target(subject)
        lets_in = target in self._registration.loosened or target in self._opened
        return lets_in or not self._registration.was_filled(target)

    async def settle(self, subjects: Collection[Subject]) -> None:
        """Give the target's subjects what holds for these of the source, which have versions there."""
        for together in pieces(sorted(subjects)):
            await self._settle_together(together, again=False)

    def settle_later(self, subjects: Collection[Subject]) -> None:
        """Have these settled again, piece by piece: somebody may have changed what holds for them on the target."""
        self._due = dict.fromkeys([*self._due, *sorted(subjects)])

    @property
    def due(self) -> int:
        """How many are to be settled again."""
        return len(self._due)

    async def settle_some(self) -> None:
        """Settle a piece of what is due."""
        together = list(islice(self._due, _AGAIN_TOGETHER))
        await self._settle_together(together, again=True)
        for subject in together:
            del self._due[subject]

    async def _settle_together(self, subjects: Collection[Subject], *, again: bool) -> None:
        if not subjects:
            return
        source_level, target_level = await asyncio.gather(
            self._source.global_compatibility(), self._target.global_compatibility()
        )

        async def settle(subject: Subject) -> None:
            target = self._rules.target(subject)
            ask = again or self._registration.was_filled(target)
            if again:
                self._levels.pop(target, None)
                self._modes.pop(target, None)
            try:
                await self._settle_level(subject, target, (source_level, target_level), ask=ask)
                await self._settle_mode(subject, target, ask=ask)
            except RegistryRefusedError as error:
                self.problems[target] = f"{target} on the target does not get what holds for {subject}: {error}"
            else:
                self.problems.pop(target, None)

        await asyncio.gather(*map(settle, subjects))

    async def _settle_level(
        self, subject: Subject, target: Subject, global_levels: tuple[str | None, str | None], *, ask: bool
    ) -> None:
        source_level, target_level = global_levels
        level = await self._source.compatibility(subject) or source_level
        before = self._levels.get(target)
        if before is None and ask:
            before = await self._target.compatibility(target)
        before = before or target_level
        if level is None:
            return
        if level != before or target in self._registration.loosened:
            await self._open(target)
            await self._changes.set_level(target, level, before=before, why=f"{subject} has it on the source")
        self._levels[target] = level
        self._registration.loosened.discard(target)

    async def _settle_mode(self, subject: Subject, target: Subject, *, ask: bool) -> None:
        if not self._copies_modes:
            return
        before = await self._mode(target, ask=ask)
        change = mode_change(await self._source.mode(subject), before)
        if change is None:
            self._opened.discard(target)
            return
        if change.mode is None:
            await self._changes.clear_mode(target, before=before, why=f"{subject} has none of its own on the source")
        else:
            await self._changes.set_mode(target, change.mode, before=before, why=f"{subject} has it on the source")
            # Some servers answer that it is done, and know no modes.
            self._copies_modes = await self._target.mode(target) == change.mode
        self._modes[target] = change.mode
        self._opened.discard(target)

    async def _open(self, target: Subject) -> None:
        before = await self._mode(target, ask=self._registration.was_filled(target)) if self._copies_modes else None
        if before in CLOSED:
            why = "it is to get something; it is closed again as long as the source's is"
            await self._changes.clear_mode(target, before=before, why=why)
            self._modes[target] = None
            self._opened.add(target)

    async def _mode(self, target: Subject, *, ask: bool) -> Mode | None:
        if target not in self._modes:
            self._modes[target] = await self._target.mode(target) if ask else None
        return self._modes[target]


def mode_change(source: Mode | None, target: Mode | None) -> ModeChange | None:
    """What becomes of the own mode of a target's subject, by that of the source's; None: it stays."""
    wanted = source if source in CLOSED else None
    stays = target == wanted or target in _OTHERS or (wanted is None and target not in CLOSED)
    return None if stays else ModeChange(wanted)
