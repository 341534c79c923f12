"""What happens to whom, and when."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.lab.chaos.schedule import KINDS, Fault, groups, plan, steps

_seeds = st.integers(0, 2**32)
_numbers = st.integers(1, 150)


def _kind(fault: Fault) -> tuple[str, str]:
    return fault.action, fault.victim.rstrip(" 12")


@given(_seeds, _numbers)
def test_a_seed_gives_the_same_faults_each_time(seed: int, number: int) -> None:
    """As many as were asked for; a longer run begins as a shorter one does."""
    faults = plan(seed, number)
    assert [fault.number for fault in faults] == list(range(1, number + 1))
    assert plan(seed, number) == faults
    assert plan(seed, number + 10)[:number] == faults


def test_the_schedule_of_a_seed_stays_for_ever() -> None:
    """A run of last year can be repeated: these are what seed 1 has always begun with."""
    faults = [f"{fault.pause_s}: {fault}" for fault in plan(1, 4)]
    assert faults == [
        "2.0: freeze broker B for 0.4 s",
        "1.0: kill coordinator",
        "0.8: long freeze broker A for 11.1 s",
        "2.9: long freeze coordinator for 8.3 s",
    ]


@given(_seeds)
def test_every_kind_of_fault_comes_in_twelve(seed: int) -> None:
    """Whatever the seed; in twice as many each of them comes twice. Some overlap."""
    wanted = {(action, role[0].rstrip(" 12")) for action, role in KINDS}
    assert len(wanted) == 12
    faults = plan(seed, 24)
    for half in (faults[:12], faults[12:]):
        assert {_kind(fault) for fault in half} == wanted
    assert any(fault.overlaps for fault in faults[:12])


@given(_seeds, _numbers)
def test_overlapping_faults_have_different_victims(seed: int, number: int) -> None:
    """Nobody is frozen or killed who is frozen or dead already; no more than three at once."""
    faults = plan(seed, number)
    assert not faults[0].overlaps
    together = groups(faults)
    assert [fault for group in together for fault in group] == list(faults)
    for group in together:
        assert 1 <= len(group) <= 3
        assert len({fault.victim for fault in group}) == len(group)
        assert [fault.overlaps for fault in group] == [False] + [True] * (len(group) - 1)


@given(_seeds, _numbers)
def test_whatever_begins_and_goes_on_is_ended(seed: int, number: int) -> None:
    """In the order of time; freezes of one to forty seconds, brokers' also shorter; killed brokers come back."""
    for group in groups(plan(seed, number)):
        done = steps(group)
        assert all(before.at_s <= after.at_s for before, after in pairwise(done))
        assert [step.fault for step in done if step.begins] == list(group)
        ended = {step.fault.number for step in done if not step.begins}
        for fault in group:
            is_over_at_once = fault.action == "kill" and not fault.victim.startswith("broker")
            assert (fault.number not in ended) == is_over_at_once
            assert is_over_at_once or 0.3 <= fault.hold_s <= 40
