"""Where partitions go: balance, stickiness, few moves."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.coordinator.assignment_rules import LOAD_TOLERANCE, PartitionWeight, assign
from mirror_ray.model.names import FlowName, FlowPartition

FLOW = FlowName("A", "B")

partitions = st.dictionaries(
    st.builds(FlowPartition, st.just(FLOW), st.sampled_from(["t", "u", "v"]), st.integers(0, 40)),
    st.builds(PartitionWeight, st.integers(-1, 3)),
    max_size=60,
)
loaded = st.dictionaries(
    st.builds(FlowPartition, st.just(FLOW), st.just("t"), st.integers(0, 20)),
    st.builds(PartitionWeight, st.integers(0, 3), st.integers(0, 1000).map(float)),
    max_size=12,
)
counts = st.integers(1, 7)


def _names(count: int) -> list[str]:
    return [f"r{number}" for number in range(count)]


def _held(owners: dict[FlowPartition, str], count: int) -> list[int]:
    return [list(owners.values()).count(name) for name in _names(count)]


@given(partitions, counts)
def test_every_partition_is_placed_and_counts_differ_by_one_at_most(
    wanted: dict[FlowPartition, PartitionWeight], count: int
) -> None:
    """All are placed on replicators that exist, evenly."""
    owners = assign(wanted, _names(count), {})
    assert owners.keys() == wanted.keys()
    held = _held(owners, count)
    assert max(held) - min(held) <= 1


@given(partitions, counts)
def test_one_more_replicator_moves_no_more_than_its_share(
    wanted: dict[FlowPartition, PartitionWeight], count: int
) -> None:
    """From N to N+1 at most ceil(total / (N+1)) partitions move, and only to the newcomer."""
    before = assign(wanted, _names(count), {})
    after = assign(wanted, _names(count + 1), before)
    moved = [partition for partition in wanted if before[partition] != after[partition]]
    assert len(moved) <= ceil(len(wanted) / (count + 1))
    assert all(after[partition] == f"r{count}" for partition in moved)


@given(partitions, counts)
def test_one_replicator_less_moves_only_what_it_had(wanted: dict[FlowPartition, PartitionWeight], count: int) -> None:
    """The survivors keep everything that they have."""
    before = assign(wanted, _names(count + 1), {})
    after = assign(wanted, _names(count), before)
    assert all(before[partition] == f"r{count}" for partition in wanted if before[partition] != after[partition])


@given(loaded, counts)
def test_assigning_again_changes_nothing(wanted: dict[FlowPartition, PartitionWeight], count: int) -> None:
    """What has been decided is a fixed point, with loads too."""
    owners = assign(wanted, _names(count), {})
    for _ in range(10):
        owners = assign(wanted, _names(count), owners)
    assert assign(wanted, _names(count), owners) == owners


def test_loads_are_evened_out_by_swaps() -> None:
    """Two busy partitions on one replicator are torn apart, and the counts stay."""
    wanted = {FlowPartition(FLOW, "t", number): PartitionWeight(0, 100.0 if number < 2 else 0.0) for number in range(4)}
    owners = {partition: "r0" if partition.partition < 2 else "r1" for partition in wanted}
    after = assign(wanted, _names(2), owners)
    loads = [sum(wanted[partition].load for partition, name in after.items() if name == owner) for owner in _names(2)]
    assert abs(loads[0] - loads[1]) <= LOAD_TOLERANCE * 100
    assert _held(after, 2) == [2, 2]


def test_partitions_of_one_broker_stay_together() -> None:
    """With as many brokers as replicators each replicator reads from one broker."""
    wanted = {FlowPartition(FLOW, "t", number): PartitionWeight(number % 3) for number in range(12)}
    owners = assign(wanted, _names(3), {})
    for name in _names(3):
        assert len({wanted[partition].broker for partition, owner in owners.items() if owner == name}) == 1


def test_no_replicator_places_nothing() -> None:
    """Without a replicator the answer is empty, not an error."""
    assert assign({FlowPartition(FLOW, "t", 0): PartitionWeight()}, [], {}) == {}
