"""Every kind of fault at the first, a middle and the last position, in every kind of topic; none on clean copies."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import Clusters
from tests.support.planted_faults import KINDS
from tests.support.planted_ways import UNTIMED, by_chaos, by_compare, by_verify, every_case, table, untimed_cases
from tests.support.planting import Planted

pytestmark = pytest.mark.timeout(300)


async def test_all_of_them_are_found(clusters: Clusters) -> None:
    """By verify and by compare in one run over all topics, and by chaos's own check."""
    planted = Planted(clusters, KINDS, {kind: every_case(kind) for kind in KINDS})
    await planted.plant()
    looked = [*await by_verify(planted)]
    for way in (by_compare, by_chaos):
        looked += await asyncio.to_thread(way, planted)
    wrong = [f"{each.way}, {each.case}: {each.result}: {each.said}" for each in looked if not each.good]
    assert wrong == [], table(looked)


async def test_where_the_target_sets_its_own_timestamps(clusters: Clusters) -> None:
    """All but other timestamps, which are no fault there."""
    planted = Planted(clusters, UNTIMED, {kind: untimed_cases(kind) for kind in UNTIMED}, append_time=True)
    await planted.plant()
    looked = [*await by_verify(planted), *await asyncio.to_thread(by_compare, planted)]
    wrong = [f"{each.way}, {each.case}: {each.result}: {each.said}" for each in looked if not each.good]
    assert wrong == [], table(looked)
