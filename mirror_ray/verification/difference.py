"""A difference between a source partition and its copy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mirror_ray.verification.record_hashes import Field

#: ``missing``: on the target. ``doubled``: there twice. ``extra``: on the target, and not on the source. ``swapped``:
#: in the place of the next one, which is in its. ``moved``: out of order. ``changed``: other in some of its fields.
Kind = Literal["missing", "doubled", "extra", "swapped", "moved", "changed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. Where a record is on one side only, the other offset is its place there."""

    kind: Kind
    source_offset: int
    target_offset: int
    #: Of a changed record: what is other.
    fields: tuple[Field, ...] = ()
    #: The recorded gap that accounts for it; None: none does.
    gap: str | None = None
    #: Of a record that the source does not have there: who wrote it, where that is not the flow.
    producer_id: int | None = None

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
        if self.producer_id is not None:
            text += f"; producer {self.producer_id} wrote it, which is none of the flow's"
        return f"{text} (known: {self.gap})" if self.gap else text
