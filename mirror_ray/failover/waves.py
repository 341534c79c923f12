"""Waves: plans that move some groups, and the producers of some topics, while all others stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, FailoverStep, Kind
from mirror_ray.groups.translated_offset import TranslatedGroups
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.patterns import Pattern, compile_patterns


class Plans(Protocol):
    """The plans of a flow."""

    def plans(self) -> Sequence[FailoverPlan]:
        """All plans, oldest first."""

    def offsets(self, plan: str) -> TranslatedGroups:
        """What a plan has moved, by group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanScope:
    """The groups that a plan moves, and the topics whose producers move with it."""

    #: Others stay; a whole failover or failback moves all.
    is_wave: bool = False
    groups: Pattern | None = None
    topics: Pattern | None = None
    #: Where a wave is brought back, the groups and topics of that wave.
    own_groups: frozenset[str] = frozenset()
    own_topics: frozenset[str] = frozenset()
    #: What waves have moved before.
    groups_away: frozenset[str] = frozenset()
    topics_away: frozenset[str] = frozenset()

    def moves(self, group: str) -> bool:
        """Whether the plan moves a group."""
        if group in self.groups_away:
            return False
        return not self.is_wave or group in self.own_groups or (self.groups is not None and self.groups.fits(group))

    def leaves(self, topic: str) -> bool:
        """Whether nobody writes to a topic any more once the plan is carried out."""
        if topic in self.topics_away:
            return False
        return not self.is_wave or topic in self.own_topics or (self.topics is not None and self.topics.fits(topic))


def is_wave(options: FailoverOptions) -> bool:
    """Whether a plan moves some groups and topics alone."""
    return bool(options.groups or options.topics or options.wave)


def away(history: Plans) -> list[FailoverPlan]:
    """The failovers whose groups have not been brought back, oldest first."""
    found: dict[str, FailoverPlan] = {}
    for plan in history.plans():
        if not plan.finished:
            continue
        if plan.kind == "failover":
            found[plan.id] = plan
        elif plan.options.wave:
            found.pop(plan.options.wave, None)
        else:
            found.clear()
    return list(found.values())


def paused_topics(plan: FailoverPlan) -> list[str]:
    """The topics that a wave has paused."""
    result = plan.results.get(FailoverStep.STOP)
    return list(result.figures.get("paused", ())) if result is not None else []


def moved_by(history: Plans, options: FailoverOptions, flow: str) -> TranslatedGroups:
    """What a failback brings back: all that is away, or one wave.

    Raises:
        ConfigError: There is no such wave, or nothing is away.
    """
    plans = away(history)
    if options.wave:
        waves = [plan for plan in plans if is_wave(plan.options)]
        chosen = next((plan for plan in waves if plan.id == options.wave), None)
        if chosen is None:
            raise ConfigError(f"no wave {options.wave} of {flow} is away; away are: {_listed(waves)}")
        return history.offsets(chosen.id)
    return {group: offsets for plan in plans for group, offsets in history.offsets(plan.id).items()}


def scope_of(history: Plans, kind: Kind, options: FailoverOptions) -> PlanScope:
    """The scope of a plan that is to be carried out."""
    waves = [plan for plan in away(history) if is_wave(plan.options)]
    if kind == "failback":
        wave = next((plan for plan in waves if plan.id == options.wave), None)
        if wave is None:
            return PlanScope()
        own = frozenset(history.offsets(wave.id)), frozenset(paused_topics(wave))
        return PlanScope(is_wave=True, own_groups=own[0], own_topics=own[1])
    return PlanScope(
        is_wave=is_wave(options),
        groups=compile_patterns(options.groups),
        topics=compile_patterns(options.topics),
        groups_away=frozenset(group for plan in waves for group in history.offsets(plan.id)),
        topics_away=frozenset(topic for plan in waves for topic in paused_topics(plan)),
    )


def topics_to_resume(history: Plans, scope: PlanScope) -> list[str]:
    """The topics that waves have paused, and that a failback resumes: of the wave, or of all."""
    if scope.is_wave:
        return sorted(scope.own_topics)
    return sorted({topic for plan in away(history) for topic in paused_topics(plan)})


def shown(options: FailoverOptions) -> str:
    """A wave in a few words, for a table; "" for a plan that moves everything."""
    parts = {"groups": ", ".join(options.groups), "topics": ", ".join(options.topics), "back": options.wave}
    return "; ".join(f"{name} {what}" for name, what in parts.items() if what)


def _listed(waves: Sequence[FailoverPlan]) -> str:
    return ", ".join(plan.id for plan in waves) or "none"
