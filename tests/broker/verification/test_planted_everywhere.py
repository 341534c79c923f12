"""Every kind of fault at the first, a middle and the last position, in every kind of topic; none on clean copies."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import Clusters
from tests.support.planted_checks import (
    check_by_chaos,
    check_by_compare,
    check_by_verify,
    every_fault,
    table,
    untimed_faults,
)

pytestmark = pytest.mark.timeout(300)


async def test_all_of_them_are_found(clusters: Clusters) -> None:
    """By verify and by compare in one run over all topics, and by chaos's own check."""
    planted = every_fault(clusters)
    await planted.plant()
    results = [*await check_by_verify(planted)]
    for check in (check_by_compare, check_by_chaos):
        results += await asyncio.to_thread(check, planted)
    wrong = [str(result) for result in results if not result.good]
    assert wrong == [], table(results)


async def test_where_the_target_sets_its_own_timestamps(clusters: Clusters) -> None:
    """All but other timestamps, which are no fault there."""
    planted = untimed_faults(clusters)
    await planted.plant()
    results = [*await check_by_verify(planted), *await asyncio.to_thread(check_by_compare, planted)]
    wrong = [str(result) for result in results if not result.good]
    assert wrong == [], table(results)
