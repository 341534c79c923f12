"""Lists packages, jars and crates with advisories that are known to the list: ``make scan``.

Ends with 1 if one of them is not accepted with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from supply.advisories import Advisory, findings, load
from supply.parts import SupplyPart, all_parts


def report(
    parts: Sequence[SupplyPart], found: list[tuple[SupplyPart, Advisory]], accepted: dict[str, str]
) -> tuple[list[str], int]:
    """The lines to print, and how many findings are not accepted."""
    lines: list[str] = []
    open_ones = 0
    for part, advisory in sorted(found, key=lambda pair: (pair[0].brought_by, pair[0].purl, pair[1].ids)):
        reason = accepted.get(part.brought_by)
        open_ones += reason is None
        where = f" in {part.brought_by}" if part.brought_by else ""
        lines.append(f"{'accepted' if reason else 'OPEN    '}  {part.purl}{where}: {', '.join(advisory.ids)}")
    lines += [f"accepted in {name}: {reason}" for name, reason in accepted.items()]
    lines.append(f"{len(parts)} packages, jars and crates, {len(found)} findings, {open_ones} of them open")
    return lines, open_ones


def main() -> int:
    """Scan and print; returns the exit code."""
    known = load()
    parts = all_parts()
    lines, open_ones = report(parts, findings(parts, known.advisories), known.accepted)
    print(*lines, sep="\n")
    for source in known.sources:
        print(f"known on {source['date']}: {source['name']}")
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
