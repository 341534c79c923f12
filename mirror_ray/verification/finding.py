"""A difference between a source partition and its copy, and whether the flow knows of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from mirror_ray.coordination.state import Gap
from mirror_ray.verification.prints import Field

#: ``missing``: on the target. ``doubled``: there twice. ``extra``: on the target, and not on the source. ``swapped``:
#: in the place of the next one, which is in its. ``moved``: out of order. ``changed``: other in some of its fields.
Kind = Literal["missing", "doubled", "extra", "swapped", "moved", "changed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference. Where a record is on one side only, the other offset is its place there."""

    kind: Kind
    source_offset: int
    target_offset: int
    #: Of a changed record: what is other.
    fields: tuple[Field, ...] = ()
    #: The recorded gap that accounts for it; None: none does.
    gap: str | None = None

    def __str__(self) -> str:
        source, target = f"source offset {self.source_offset}", f"target offset {self.target_offset}"
        match self.kind:
            case "missing":
                text = f"the record at {source} is missing on the target, at {target}"
            case "doubled":
                text = f"the record at {source} is on the target once more, at {target}"
            case "extra":
                text = f"the record at {target} is not on the source, at {source}"
            case "swapped":
                text = f"the record at {source} is swapped with the next on the target, at {target}"
            case "moved":
                text = f"the record at {source} is out of order on the target, at {target}"
            case "changed":
                text = f"the record at {source} has another {' and '.join(self.fields)} on the target, at {target}"
        return f"{text} (known: {self.gap})" if self.gap else text


def with_gaps(findings: Iterable[Finding], gaps: Iterable[Gap]) -> list[Finding]:
    """The findings, those that a recorded gap of the partition accounts for with its text."""
    known = list(gaps)
    return [replace(each, gap=next((_text(gap) for gap in known if _accounts(gap, each)), None)) for each in findings]


def _accounts(gap: Gap, finding: Finding) -> bool:
    source, target = finding.source_offset, finding.target_offset
    if finding.kind == "missing":
        # What the target lost is missing at the place where it ended then.
        lost = gap.kind == "target_truncated" and gap.target_from == target
        return lost or gap.source_from <= source < gap.source_to
    if finding.kind in ("extra", "doubled"):
        # What the source lost stays on the target.
        lost = gap.kind == "source_truncated" and gap.source_from <= source <= gap.source_to
        return lost or gap.target_from <= target < gap.target_to
    return False


def _text(gap: Gap) -> str:
    return f"{gap.kind}, answered by {gap.policy}: {gap.text}"
