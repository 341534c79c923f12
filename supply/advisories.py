"""Advisories about packages, jars and crates: ids, ranges, their dates, and which of our parts they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supply.parts import SupplyPart
from supply.versions import is_before

LIST = Path(__file__).with_name("advisories.json")


@dataclass(frozen=True)
class Advisory:
    """A vulnerability of a package: its ids, and the affected ranges of versions.

    ``package`` is ``ecosystem/name`` or ``ecosystem/group:name``. A range is (first affected, first fixed version); the
    latter is None where none is fixed, and an empty first one is every version from the beginning.
    """

    package: str
    ids: tuple[str, ...]
    ranges: tuple[tuple[str, str | None], ...]

    def is_about(self, part: SupplyPart) -> bool:
        """Whether the part is affected. A jar without a group is judged by its name."""
        ecosystem, _, name = self.package.partition("/")
        group, _, artifact = name.rpartition(":")
        if (part.ecosystem, part.name) != (ecosystem, artifact) or part.group not in ("", group):
            return False
        return any(
            not (first and is_before(part.version, first, part.ecosystem))
            and (fixed is None or is_before(part.version, fixed, part.ecosystem))
            for first, fixed in self.ranges
        )


@dataclass(frozen=True)
class AdvisoryList:
    """The list: its sources, each with its date; the advisories; and accepted findings.

    ``accepted``: by the package that contains a part, the reason why findings in its parts are accepted.
    """

    sources: tuple[dict[str, str], ...]
    advisories: tuple[Advisory, ...]
    accepted: dict[str, str]


def load(path: Path = LIST) -> AdvisoryList:
    """The project's list."""
    document: dict[str, Any] = json.loads(path.read_text())
    advisories = (
        Advisory(row["package"], tuple(row["ids"]), tuple((first, fixed) for first, fixed in row["ranges"]))
        for row in document["advisories"]
    )
    return AdvisoryList(tuple(document["sources"]), tuple(advisories), document["accepted"])


def findings(parts: Iterable[SupplyPart], advisories: Iterable[Advisory]) -> list[tuple[SupplyPart, Advisory]]:
    """Each part with each advisory that is about it."""
    known = list(advisories)
    return [(part, advisory) for part in parts for advisory in known if advisory.is_about(part)]
