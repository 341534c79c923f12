"""How many batches of a flow are unpacked, however many partitions it has."""

from __future__ import annotations

from mirror_ray.replication.sample_budget import SampleBudget


def test_few_partitions_are_all_sampled_and_many_in_the_long_run() -> None:
    """A hundred at once, then twenty a second; what was not taken is saved up to a hundred."""
    now_s = 0.0
    budget = SampleBudget(lambda: now_s)

    def taken() -> int:
        return sum(budget.take() for _ in range(10_000))

    assert taken() == 100
    assert taken() == 0
    now_s = 1.0
    assert taken() == 20
    now_s = 1000.0
    assert taken() == 100
