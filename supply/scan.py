"""Says which packages and jars have faults that were known when the list was made: ``make scan``.

Ends with 1 if one of them is not argued away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from supply.advisories import Advisory, findings, load
from supply.parts import SupplyPart, all_parts


def report(
    parts: Sequence[SupplyPart], found: list[tuple[SupplyPart, Advisory]], accepted: dict[str, str]
) -> tuple[list[str], int]:
    """The lines to print, and how many findings nobody has argued away."""
    lines: list[str] = []
    open_ones = 0
    for part, advisory in sorted(found, key=lambda each: (each[0].brought_by, each[0].purl, each[1].ids)):
        reason = accepted.get(part.brought_by)
        open_ones += reason is None
        where = f" in {part.brought_by}" if part.brought_by else ""
        lines.append(f"{'accepted' if reason else 'OPEN    '}  {part.purl}{where}: {', '.join(advisory.ids)}")
    lines += [f"accepted in {name}: {reason}" for name, reason in accepted.items()]
    lines.append(f"{len(parts)} packages and jars, {len(found)} findings, {open_ones} of them open")
    return lines, open_ones


def main() -> int:
    """Scan, print, and say how it went."""
    known = load()
    parts = all_parts()
    lines, open_ones = report(parts, findings(parts, known.advisories), known.accepted)
    print(*lines, sep="\n")
    for source in known.sources:
        print(f"known on {source['date']}: {source['name']}")
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
