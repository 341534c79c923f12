"""Which fault happens to which process and when, as a function of a seed and of a number of faults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

_T = TypeVar("_T")

#: ``kill`` is SIGKILL; ``freeze`` is SIGSTOP and then SIGCONT, ``long freeze`` after any lease or session has run out.
Action = Literal["kill", "freeze", "long freeze"]
Victim = Literal["replicator 1", "replicator 2", "coordinator", "broker A", "broker B"]

REPLICATORS: Final[tuple[Victim, ...]] = ("replicator 1", "replicator 2")
_ROLES: Final[tuple[tuple[Victim, ...], ...]] = (REPLICATORS, ("coordinator",), ("broker A",), ("broker B",))
_ACTIONS: Final[tuple[Action, ...]] = ("kill", "freeze", "long freeze")

#: Every kind of fault: an action, and the victims that it may be done to.
KINDS: Final = tuple((action, role) for role in _ROLES for action in _ACTIONS)

#: Least and most seconds of an action, by victim: how long a killed broker is down, how long a process is frozen.
_HOLDS: Final[dict[tuple[Action, str], tuple[float, float]]] = {
    ("kill", "broker"): (0.5, 8.0),
    ("freeze", "replicator"): (1.0, 3.5),
    ("freeze", "coordinator"): (1.0, 3.5),
    # The brokers' session is two seconds.
    ("freeze", "broker"): (0.3, 1.7),
    ("long freeze", "replicator"): (6.0, 40.0),
    ("long freeze", "coordinator"): (5.0, 20.0),
    ("long freeze", "broker"): (3.0, 12.0),
}

#: Of four groups of faults, one has two that overlap, and one has three.
_GROUP_SIZES: Final = (1, 1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. Numbers begin at 1."""

    number: int
    action: Action
    victim: Victim
    #: Since all had recovered; where it ``overlaps``, since the begin of the fault before it, which may still last.
    pause_s: float
    #: From its begin until the victim is resumed, or the killed broker is started; 0: nothing is to be ended.
    hold_s: float
    overlaps: bool

    def __str__(self) -> str:
        held = f" for {self.hold_s:.1f} s" if self.hold_s else ""
        return f"{self.action} {self.victim}{held}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledStep:
    """A fault begins or ends, so many seconds after its group has begun."""

    at_s: float
    fault: Fault
    begins: bool


def plan(seed: int, faults: int) -> tuple[Fault, ...]:
    """The faults of a run, the same for the same arguments on every platform.

    Each of ``KINDS`` occurs once before one occurs again, so that a run of as many faults has all of them, and some
    that overlap. Overlapping faults have different victims.
    """
    planned: list[Fault] = []
    kinds: list[tuple[Action, tuple[Victim, ...]]] = []
    group: set[Victim] = set()
    sizes: list[int] = []
    while len(planned) < faults:
        number = len(planned) + 1
        kinds = kinds or _shuffled(seed, f"kinds {number}", KINDS)
        chosen = _choose(seed, number, kinds, group) if group and sizes[0] > len(group) else None
        overlaps = chosen is not None
        if chosen is None:
            group = set()
            sizes = sizes[1:] or _shuffled(seed, f"sizes {number}", _GROUP_SIZES)
            chosen = _choose(seed, number, kinds, group)
        assert chosen is not None  # noqa: S101 - there always is a kind, and an empty group excludes none
        action, victim = chosen
        group.add(victim)
        least_s, most_s = (0.1, 3.0) if overlaps else (1.0, 4.0)
        planned.append(
            Fault(
                number=number,
                action=action,
                victim=victim,
                pause_s=_between(seed, f"pause {number}", least_s, most_s),
                hold_s=_between(seed, f"hold {number}", *_HOLDS.get((action, victim.split()[0]), (0.0, 0.0))),
                overlaps=overlaps,
            )
        )
    return tuple(planned)


def groups(faults: Iterable[Fault]) -> tuple[tuple[Fault, ...], ...]:
    """Faults that overlap, together; before each group everything runs well."""
    together: list[list[Fault]] = []
    for fault in faults:
        if fault.overlaps and together:
            together[-1].append(fault)
        else:
            together.append([fault])
    return tuple(map(tuple, together))


def steps(group: Iterable[Fault]) -> tuple[ScheduledStep, ...]:
    """The begins and ends of one group's faults, in the order of time."""
    found: list[ScheduledStep] = []
    now_s = 0.0
    for fault in group:
        now_s += fault.pause_s
        found.append(ScheduledStep(at_s=now_s, fault=fault, begins=True))
        if fault.hold_s:
            found.append(ScheduledStep(at_s=now_s + fault.hold_s, fault=fault, begins=False))
    return tuple(sorted(found, key=lambda step: step.at_s))


def _choose(
    seed: int, number: int, kinds: list[tuple[Action, tuple[Victim, ...]]], taken: set[Victim]
) -> tuple[Action, Victim] | None:
    """Take the first kind out of ``kinds`` that has a victim which is not taken."""
    for kind in kinds:
        action, role = kind
        for victim in _shuffled(seed, f"victim {number}", role):
            if victim not in taken:
                kinds.remove(kind)
                return action, victim
    return None


def _shuffled(seed: int, what: str, items: Iterable[_T]) -> list[_T]:
    return [item for _, item in sorted((_draw(seed, f"{what} {n}"), item) for n, item in enumerate(items))]


def _between(seed: int, what: str, least: float, most: float) -> float:
    return round(least + (most - least) * _draw(seed, what), 1)


def _draw(seed: int, what: str) -> float:
    """A number from 0 up to 1, as good as random; ``random`` does not promise the same sequence for ever."""
    digest = hashlib.sha256(f"{seed} {what}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
