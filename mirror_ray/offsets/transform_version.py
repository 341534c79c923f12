"""What was copied of the records in a gap of the map, where a flow has transforms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.gap_scan import Copied
from mirror_ray.offsets.map_store import TransformedGap
from mirror_ray.offsets.segments import BetweenSegments
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.transforms.loading import TransformChains


class TransformVersions:
    """Applies the transforms of a flow to records that were copied by them, and to no others.

    Without the right ones a gap is counted by all of its records. That is never wrong: transforms leave out records and
    add none, so if as many were copied as there are, they are the same ones; else the place is told as not exact.
    """

    def __init__(self, load: Callable[[], TransformChains], on_problem: Callable[[str], None]) -> None:
        """``load`` may raise a ValueError."""
        self._chains = TransformChains(())
        try:
            self._chains = load()
        except ValueError as error:
            on_problem(f"offsets may be translated less exactly: transforms can't be loaded: {error}")

    def of(self, source: TopicPartition, made: TransformedGap, gap: BetweenSegments) -> Copied | None:
        """What tells which records of a gap were copied; None: all of them are counted."""
        chain = self._chains.chain(source.topic) if made.transforms else None
        if chain is None or not chain.pure or chain.identity != made.transforms or gap.after.source < made.since:
            return None
        applied = chain.apply

        def copied(records: Sequence[DecodedRecord]) -> Sequence[DecodedRecord]:
            return applied(source, records).kept

        return copied
