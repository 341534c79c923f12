"""The alert rules. What is wrong, the system itself judges (``observe.problems``); an alert says it in its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_ray.observe.problems import PROBLEM_KINDS, ProblemKind

#: Where the pages are, from the project's root.
RUNBOOKS: Final = "docs/runbooks/alerts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule. ``hold``: for how long it must be so before anybody is told."""

    name: str
    expression: str
    hold: str
    summary: str
    description: str
    runbook: str
    severity: str | None = None

    def rule(self) -> dict[str, object]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.hold,
            **({"labels": {"severity": self.severity}} if self.severity else {}),
            "annotations": {"summary": self.summary, "description": self.description, "runbook": self.runbook},
        }


def alert_name(kind: ProblemKind) -> str:
    """``flow_down`` is ``MirrorRayFlowDown``."""
    return "MirrorRay" + "".join(word.capitalize() for word in kind.split("_"))


def runbook(kind: str) -> str:
    """The page that says what to do."""
    return f"{RUNBOOKS}/{kind.replace('_', '-')}.md"


def _of_kind(kind: ProblemKind) -> Alert:
    return Alert(
        name=alert_name(kind),
        expression=f'mirror_ray_problem{{kind="{kind}"}} == 1',
        # The judgement has waited already for what may pass by itself.
        hold="0s",
        summary="{{ $labels.subject }}: {{ $labels.text }}",
        description="{{ $labels.remedy }}",
        runbook=runbook(kind),
    )


#: Of what the system can't say of itself, because nothing of it is there to be scraped.
ABSENT = Alert(
    name="MirrorRayAbsent",
    expression="absent(mirror_ray_coordinator_up)",
    hold="1m",
    severity="critical",
    summary="mirror-ray: nothing of it is scraped, so nobody watches the flows",
    description="Is the system up (mirror-ray status)? Does Prometheus find the gateway (its address is in status)?",
    runbook=runbook("absent"),
)

ALERTS: tuple[Alert, ...] = (*(_of_kind(kind) for kind in PROBLEM_KINDS), ABSENT)


def alert_group() -> dict[str, object]:
    """The rules as a group of a rules file."""
    return {"name": "mirror-ray", "rules": [each.rule() for each in ALERTS]}
