"""How much is asked for at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.replication.fetch_size import FetchSize

MB = 1_000_000
ROOM = 32 * MB


def settled(
    round_trip_s: float, link_bytes_per_s: float, *, partitions: int = 1, room: int = ROOM
) -> tuple[int, float]:
    """Bytes of an answer, and bytes per second, after twenty full answers over such a link."""
    size = FetchSize(8 * MB, 4 * MB, round_trip_s)
    for _ in range(20):
        answer = 8 * MB + size.extra_bytes(room)
        brought = min(partitions * size.partition_bytes(answer, partitions), answer)
        took_s = round_trip_s + brought / link_bytes_per_s
        size.answered(took_s, full=True)
    return brought, brought / took_s


@pytest.mark.parametrize("round_trip_s", [0.0002, 0.005])
def test_a_near_broker_is_asked_for_no_more_than_usual(round_trip_s: float) -> None:
    """Whatever the link brings: memory is better spent."""
    assert settled(round_trip_s, 1000 * MB)[0] == 4 * MB


def test_a_long_and_wide_link_is_filled() -> None:
    """Where 4 MB per round trip would be 40 MB/s."""
    brought, rate = settled(0.1, 200 * MB)
    assert brought == 24 * MB
    assert rate > 100 * MB


def test_a_thin_link_is_asked_for_no_more_than_it_carries() -> None:
    """One that is busy all the time gains nothing by larger answers, and other partitions would wait for them."""
    assert settled(0.1, 5 * MB)[0] == 4 * MB


def test_many_partitions_share_one_large_answer() -> None:
    """It is the answer that a round trip brings."""
    brought, rate = settled(0.1, 200 * MB, partitions=50)
    assert brought > 16 * MB
    assert rate > 80 * MB


def test_a_few_partitions_share_an_answer_evenly() -> None:
    """Each brings as much as the others, instead of two of them filling it."""
    assert FetchSize(8 * MB, 4 * MB, 0.1).partition_bytes(8 * MB, 5) == 8 * MB // 5


def test_a_share_holds_a_large_batch() -> None:
    """Or a partition of such batches would bring nothing while others do."""
    size = FetchSize(8 * MB, 4 * MB, 0.1)
    assert size.partition_bytes(8 * MB, 2000) == 1_048_588
    assert FetchSize(8 * MB, MB // 2, 0.1).partition_bytes(8 * MB, 2000) == MB // 2


def test_without_room_it_is_the_usual_answer() -> None:
    """What is asked for beyond must fit into the buffer."""
    assert FetchSize(8 * MB, 4 * MB, 0.1, scale=8).extra_bytes(-MB) == 0
    assert settled(0.1, 200 * MB, room=0)[0] == 8 * MB


def test_answers_that_are_not_full_end_it() -> None:
    """A fetcher that has caught up reserves nothing."""
    size = FetchSize(8 * MB, 4 * MB, 0.1)
    for _ in range(10):
        size.answered(0.11, full=True)
    assert size.scale > 1
    for _ in range(10):
        size.answered(0.5, full=False)
    assert size.scale == 1


@given(
    st.lists(st.tuples(st.floats(0.0001, 10), st.booleans())),
    st.floats(0.0001, 1),
    st.integers(-ROOM, ROOM),
    st.integers(1, 8 * MB),
)
def test_the_room_and_the_settings_bound_it(
    answers: list[tuple[float, bool]], round_trip_s: float, room: int, partition_bytes: int
) -> None:
    """Never less than was configured, never beyond what is free."""
    size = FetchSize(8 * MB, partition_bytes, round_trip_s)
    for took_s, full in answers:
        size.answered(took_s, full=full)
        extra = size.extra_bytes(room)
        assert 0 <= extra <= max(0, room // 2)
        assert partition_bytes <= size.partition_bytes(8 * MB + extra) <= 8 * MB + extra


def test_one_of_several_connections_begins_with_what_a_single_one_would_ask_for() -> None:
    """As far as there is room."""
    size = FetchSize(1 << 20, 1 << 20, 0.1, scale=8)
    assert size.extra_bytes(1 << 30) == 7 << 20
    assert size.extra_bytes(1 << 20) == 1 << 19
