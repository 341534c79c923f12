"""Which replicator copies which partition: sticky, balanced, few moves.

The counts of any two replicators differ by one at most. A partition moves only when its owner has gone or holds more
than its share, so that going from N to N+1 replicators moves no more than the newcomer's share. Partitions that have
to be placed are laid out by source broker, so that a replicator's requests to a broker stay large, and by partition
number, so that the partitions of one hot topic are spread. Where loads are given, partitions are swapped one against
one until the loads are close, or no swap helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirror_ray.model.names import FlowName, FlowPartition

#: Loads are left alone while the busiest replicator is within this share of the mean above the least busy one.
LOAD_TOLERANCE = 0.25
#: Most swaps of one call: a bound on the work and on what moves at once.
MAX_SWAPS = 16


@dataclass(frozen=True, slots=True)
class PartitionWeight:
    """What is known of a partition: the source broker that leads it, and its bytes/s (0 when not known)."""

    broker: int = -1
    load: float = 0.0


def assign(
    partitions: Mapping[FlowPartition, PartitionWeight], replicators: Sequence[str], owners: Mapping[FlowPartition, str]
) -> dict[FlowPartition, str]:
    """Place every partition.

    Args:
        partitions: All that should be copied.
        replicators: Those that can take partitions; the order does not matter.
        owners: Who has what now. Owners that are not among ``replicators`` lose all, partitions not wanted are ignored.

    Returns:
        The wanted owner of each partition; empty where there is no replicator. Calling again with this as ``owners``
        changes nothing.
    """
    if not replicators:
        return {}
    held: dict[str, list[FlowPartition]] = {name: [] for name in sorted(replicators)}
    unplaced: list[FlowPartition] = []
    for partition in partitions:
        held.get(owners.get(partition, ""), unplaced).append(partition)
    quotas = _quotas(len(partitions), held)

    def layout(partition: FlowPartition) -> tuple[int, int, str, FlowName]:
        return (partitions[partition].broker, partition.partition, partition.topic, partition.flow)

    # What stays where it is needs no order: this is called whenever something changes, with all that there is.
    for name, mine in held.items():
        if len(mine) > quotas[name]:
            mine.sort(key=layout)
            unplaced += mine[quotas[name] :]
            del mine[quotas[name] :]
    unplaced.sort(key=layout, reverse=True)
    for name, mine in held.items():
        while len(mine) < quotas[name]:
            mine.append(unplaced.pop())
    if any(weight.load for weight in partitions.values()):
        _even_out(held, partitions)
    return {partition: name for name, mine in held.items() for partition in mine}


def _quotas(total: int, held: Mapping[str, Sequence[FlowPartition]]) -> dict[str, int]:
    """How many each may have. The remainder goes to those that hold most, so that the fewest partitions move."""
    share, remainder = divmod(total, len(held))
    by_count = sorted(held, key=lambda name: (-len(held[name]), name))
    return {name: share + (rank < remainder) for rank, name in enumerate(by_count)}


def _even_out(held: dict[str, list[FlowPartition]], weights: Mapping[FlowPartition, PartitionWeight]) -> None:
    """Swap partitions between the busiest and the least busy replicator while that brings the two closer."""
    loads = {name: sum(weights[partition].load for partition in mine) for name, mine in held.items()}
    tolerated = LOAD_TOLERANCE * sum(loads.values()) / len(loads)
    for _ in range(MAX_SWAPS):
        busiest = max(loads, key=lambda name: (loads[name], name))
        idlest = min(loads, key=lambda name: (loads[name], name))
        gap = loads[busiest] - loads[idlest]
        if gap <= tolerated:
            return
        swap = _best_swap(held[busiest], held[idlest], weights, gap)
        if swap is None:
            return
        give, take, moved = swap
        held[busiest][held[busiest].index(give)] = take
        held[idlest][held[idlest].index(take)] = give
        loads[busiest] -= moved
        loads[idlest] += moved


def _best_swap(
    giving: Iterable[FlowPartition],
    taking: Iterable[FlowPartition],
    weights: Mapping[FlowPartition, PartitionWeight],
    gap: float,
) -> tuple[FlowPartition, FlowPartition, float] | None:
    """The swap against the lightest partition that comes nearest to closing ``gap``.

    None where no swap closes at least a tenth of it: a move is not free.
    """
    lightest = min(taking, key=lambda partition: (weights[partition].load, partition), default=None)
    if lightest is None:
        return None

    def left_over(candidate: FlowPartition) -> float:
        return abs(gap - 2 * (weights[candidate].load - weights[lightest].load))

    give = min(giving, key=lambda partition: (left_over(partition), partition), default=None)
    if give is None or left_over(give) > 0.9 * gap:
        return None
    return give, lightest, weights[give].load - weights[lightest].load
