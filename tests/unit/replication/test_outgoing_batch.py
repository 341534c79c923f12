"""What a partition's copy counts of the batches that were acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.pipeline import CopyProgress


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(70, 1 << 20), st.integers(-1, 1 << 42))))
def test_progress_adds_up_and_its_timestamp_never_goes_back(batches: list[tuple[int, int, int]]) -> None:
    """Records of a source are in no order of time, and some have none."""
    progress = CopyProgress()
    for count, size_bytes, timestamp_ms in batches:
        progress.add(
            OutgoingBatch(
                view=memoryview(b""),
                target_offset=0,
                sequence=0,
                count=count,
                source_first=0,
                source_next=count,
                runs=((0, count),),
                source_epoch=0,
                max_timestamp=timestamp_ms,
                size_bytes=size_bytes,
            )
        )
    assert progress.records == sum(count for count, _, _ in batches)
    assert progress.bytes == sum(size_bytes for _, size_bytes, _ in batches)
    assert progress.last_timestamp_ms == max((timestamp_ms for _, _, timestamp_ms in batches), default=-1)
