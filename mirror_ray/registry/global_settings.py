"""Gives the target's registry the global level and mode of the source's, and its contexts their levels."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Final

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.registry import Mode, SchemaRegistry
from mirror_ray.registry.schema import DEFAULT_CONTEXT, Subject
from mirror_ray.registry.subject_settings import CLOSED

_WHY: Final = "the source's registry has it"


class GlobalSettings:
    """What holds for subjects without settings of their own. One call at a time."""

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        contexts: Mapping[str, str],
        changes: RecordedChanges,
        *,
        way: IdsWay,
    ) -> None:
        """``contexts``: of the target by those of the source; others keep theirs. ``changes``: of the target."""
        self._source, self._target, self._contexts = source, target, contexts
        self._changes, self._way = changes, way
        self._copies_mode = DEFAULT_CONTEXT not in contexts
        #: Why what holds on the source does not on the target, by what it is.
        self.problems: dict[str, str] = {}

    async def settle(self, contexts: Iterable[str]) -> None:
        """Compare the global settings, and the levels of these contexts of the source."""
        await self._try("global settings", self._settle_global())
        for context in sorted({*contexts} - {DEFAULT_CONTEXT}):
            scope = Subject(self._contexts.get(context, context), "")
            await self._try(f"the level of context {scope}", self._settle_level(Subject(context, ""), scope))

    async def _try(self, what: str, settling: Awaitable[None]) -> None:
        try:
            await settling
        except RegistryRefusedError as error:
            self.problems[what] = f"{what} of the source's registry can't be set on the target's: {error}"
        else:
            self.problems.pop(what, None)

    async def _settle_global(self) -> None:
        # Where its subjects are in a context of their own, so are its settings: others' subjects keep theirs.
        mapped = self._contexts.get(DEFAULT_CONTEXT)
        await self._settle_level(None, None if mapped is None else Subject(mapped, ""))
        if not self._copies_mode:
            return
        before = await self._target.mode(None)
        mode = global_mode(await self._source.mode(None), before, self._way)
        if mode is not None:
            await self._changes.set_mode(None, mode, before=before, why=_WHY)
            # Some servers answer that it is done, and know no modes.
            self._copies_mode = await self._target.mode(None) == mode

    async def _settle_level(self, source: Subject | None, target: Subject | None) -> None:
        level = await self._source.own_compatibility(source)
        before = await self._target.own_compatibility(target)
        if level is None or level == before:
            return
        if self._copies_mode and (closed := await self._target.mode(None)) in CLOSED:
            # It takes no level; the source's mode is set again after it.
            await self._changes.set_mode(None, "READWRITE", before=closed, why="it is to get a level")
        await self._changes.set_level(target, level, before=before, why=_WHY)


def global_mode(source: Mode | None, target: Mode | None, way: IdsWay) -> Mode | None:
    """What the target's global mode becomes; None: it stays. None is set in which the target would take no schemas."""
    # With ``same`` mirrored subjects have mode IMPORT, which READONLY leaves to them, and READONLY_OVERRIDE does not.
    takes_schemas = source == "READWRITE" or (source == "READONLY" and way == "same")
    return source if takes_schemas and source != target else None
