"""The records of the statistics topic."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.records.batch import CODECS
from mirror_ray.records.statistics import LATENCY_BOUNDS_MS, PartitionStatistics, decode_statistics, latency_bucket
from tests.support.statistics import partition_statistics

COUNT = st.integers(0, 2**63 - 1)
OFFSET = st.integers(-1, 2**63 - 1)
NAME = st.text(max_size=20)
STATISTICS = st.builds(
    partition_statistics,
    topic=NAME,
    from_ms=OFFSET,
    source_from=OFFSET,
    records=COUNT,
    codec=st.sampled_from((None, *CODECS)),
    latency_ms=st.dictionaries(st.sampled_from(LATENCY_BOUNDS_MS), COUNT, max_size=9),
    lag_records=st.none() | COUNT,
)


@given(statistics=STATISTICS)
def test_what_is_written_is_read(statistics: PartitionStatistics) -> None:
    """Every record, with fields that a later version may add; its value is one compact JSON object with its version."""
    key, value = statistics.encode()
    document = json.loads(value)
    assert document["version"] == 1
    assert key.decode() == f"{document['flow']}|{document['topic']}|{document['partition']}"
    assert document.keys() == PartitionStatistics.model_fields.keys()
    assert decode_statistics(value) == statistics
    assert decode_statistics(json.dumps(document | {"later": [1]}).encode()) == statistics


@given(statistics=STATISTICS, garbage=st.binary(max_size=60), at=st.integers(0, 800))
def test_bad_bytes_are_named(statistics: PartitionStatistics, garbage: bytes, at: int) -> None:
    """Whatever is cut off or put in, there are statistics or an error that says what is wrong."""
    _, value = statistics.encode()
    for bad in (value[:at] + garbage, garbage, None):
        with contextlib.suppress(CorruptRecordError):
            assert isinstance(decode_statistics(bad), PartitionStatistics)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"version": 2}, "version"), ({"records": -1}, "records"), ({"records": "5"}, "records"), ({"flow": 1}, "flow")],
)
def test_what_is_wrong_is_named(change: dict[str, object], said: str) -> None:
    """A version that is not known, and values of another type."""
    document = json.loads(partition_statistics().encode()[1]) | change
    with pytest.raises(CorruptRecordError, match=f"statistics: {said}"):
        decode_statistics(json.dumps(document).encode())


def test_a_missing_field_is_named() -> None:
    """Nothing is made up for it."""
    with pytest.raises(CorruptRecordError, match="flow: Field required"):
        decode_statistics(b'{"version":1}')


@given(latency_ms=st.integers(-(2**40), 2**40))
def test_a_latency_is_in_its_bucket(latency_ms: int) -> None:
    """Not above its bound and above the one before, a third apart; the ends take what lies beyond."""
    bound = latency_bucket(latency_ms)
    below = max((bound_ms for bound_ms in LATENCY_BOUNDS_MS if bound_ms < bound), default=None)
    assert latency_ms <= bound or bound == LATENCY_BOUNDS_MS[-1]
    assert below is None or below < latency_ms
    assert below is None or below < 10 or bound / below < 1.4


def test_the_bounds_are_what_the_docs_say() -> None:
    """From 0 and 1 ms to 100 days."""
    assert LATENCY_BOUNDS_MS[:12] == (0, 1, 2, 3, 4, 6, 7, 10, 13, 18, 24, 32)
    assert LATENCY_BOUNDS_MS[-1] == 100 * 24 * 3600 * 1000
    assert len(LATENCY_BOUNDS_MS) == 80
