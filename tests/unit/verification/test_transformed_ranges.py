"""Whether a partition can be compared whose records were changed on the way, and from where."""

from __future__ import annotations

from dataclasses import replace

from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.verification.range_bounds import transformed_starts, why_not_comparable
from tests.support.factories import partition_record
from tests.support.transforms import suffix, transforms

RECORD = partition_record(source_offset=90, target_offset=40)


def _chain(kind: str = "Suffix") -> TransformChain:
    chain = TransformChains(transforms(suffix(kind=kind)).steps).chain("t")
    assert chain is not None
    return chain


def _why(chain: TransformChain | None, record: PartitionRecord | None, *, compacted: bool = False) -> str:
    return why_not_comparable(chain, record, compacted=compacted) or ""


def test_without_transforms_nothing_stands_against_it() -> None:
    """Whatever the topic is like."""
    assert _why(None, None) == _why(None, RECORD, compacted=True) == ""


def test_by_the_transforms_that_it_was_copied_by() -> None:
    """And only if these tell the same again, of all that was copied."""
    chain, impure = _chain(), _chain("Impure")
    record = replace(RECORD, transforms=chain.identity)
    assert _why(chain, record) == ""
    assert "compacted" in _why(chain, record, compacted=True)
    assert "not pure" in _why(impure, replace(RECORD, transforms=impure.identity))
    assert "has nothing about it" in _why(chain, None)
    assert "compare it with the configuration" in _why(chain, RECORD)
    assert chain.identity in _why(None, record)


def test_what_other_transforms_have_made_is_left_out() -> None:
    """From the pair on since which they hold; a log that begins later begins there."""
    changed = replace(RECORD, transforms_source_offset=50, transforms_target_offset=20)
    assert transformed_starts(RECORD, (3, 4)) == transformed_starts(None, (3, 4)) == ((3, 4), None)
    starts, note = transformed_starts(changed, (3, 30))
    assert starts == (50, 30)
    assert "source offsets 3 to 50 were not compared" in (note or "")
    assert transformed_starts(changed, (60, 30)) == ((60, 30), None)
