"""What a partition's copy counts of the batches that were acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.replication.pipeline import CopyProgress
from tests.support.factories import outgoing_batch


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(70, 1 << 20), st.integers(-1, 1 << 42))))
def test_progress_adds_up_and_its_timestamp_never_goes_back(batches: list[tuple[int, int, int]]) -> None:
    """Records of a source are in no order of time, and some have none."""
    progress = CopyProgress()
    for count, size_bytes, timestamp_ms in batches:
        progress.add(outgoing_batch(0, count, size_bytes=size_bytes, max_timestamp=timestamp_ms))
    assert progress.records == sum(count for count, _, _ in batches)
    assert progress.bytes == sum(size_bytes for _, size_bytes, _ in batches)
    assert progress.last_timestamp_ms == max((timestamp_ms for _, _, timestamp_ms in batches), default=-1)
