"""What a run of several Ray nodes has found, and its report in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirror_ray.lab.chaos.chaos_report import TopicOutcome
from mirror_ray.lab.report_parts import document, markdown_table, problem_list

_ABOUT = """\
Each machine is a set of Linux namespaces (network, processes, mounts, name) with an address of its own; what is between
the regions is delayed by two TUN devices and a process. Each node is a `ray start` that is started again when it ends,
as a service manager or Kubernetes does it. Writers and consumers of the laboratory's own run all the time. *Stood* is
for how long a consumer saw nothing new in a partition of the target, the fault itself included; *well after* is from
the fault's end (from its begin, where it is not undone) until every partition had new records again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one fault did."""

    name: str
    fault: str
    #: How long the fault lasted; None: it is not undone.
    held_s: float | None
    #: The partitions of the replicators that it met, and the other ones, by how long they stood.
    hit_s: Mapping[str, float]
    spared_s: Mapping[str, float]
    recovery_s: float
    #: What else was seen, one sentence each.
    notes: Sequence[str] = ()
    #: What is not as it should be, one sentence each.
    problems: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class NodesOutcome:
    """What a whole run has found."""

    command: str
    date: str
    machine: str
    layout: Sequence[str]
    delay_ms: float
    findings: list[Finding] = field(default_factory=list)
    topics: Sequence[TopicOutcome] = ()
    duration_s: float = 0.0
    #: Why it ended before its time.
    broken_off: str = ""

    @property
    def problems(self) -> list[str]:
        """What is not as it should be."""
        found = [f"{finding.name}: {problem}" for finding in self.findings for problem in finding.problems]
        found += [problem for topic in self.topics for problem in (*topic.differences, *topic.source_problems)]
        found += [f"broken off: {self.broken_off}"] if self.broken_off else []
        return found if self.topics else [*found, "nothing was compared"]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        records = sum(topic.source_records for topic in self.topics)
        partitions = sum(topic.partitions for topic in self.topics)
        compared = f"{partitions} partitions, {records:,} records on the source"
        if self.problems:
            return f"NOT as it should be: {len(self.problems)} findings; {compared}"
        return f"EQUAL: {compared}; nothing lost, nothing doubled, order kept"


def nodes_report(outcome: NodesOutcome) -> str:
    """The report in Markdown."""
    heads = ("what", "for s", "partitions hit", "they stood s", "the others stood s", "well after s")
    return document(
        [
            "# Several Ray nodes",
            f"**{outcome.verdict}.**",
            f"`{outcome.command}` repeats it. {outcome.date}; {outcome.machine}.",
            f"{outcome.duration_s / 60:.0f} minutes in all.",
            *(["## What is wrong", problem_list(outcome.problems)] if outcome.problems else []),
            "## Who is where",
            _ABOUT,
            f"{outcome.delay_ms:g} ms in each direction between the regions.",
            "\n".join(f"- {line}" for line in outcome.layout),
            "## What happened",
            markdown_table(heads, [_row(finding) for finding in outcome.findings]),
            *[
                f"### {finding.name}\n\n{finding.fault}\n\n" + "\n".join(f"- {note}" for note in finding.notes)
                for finding in outcome.findings
            ],
            "## The copy",
            markdown_table(
                ("topic", "kind", "partitions", "committed", "records on source", "on target", "copy"),
                [_topic(topic) for topic in outcome.topics],
            ),
        ]
    )


def _row(finding: Finding) -> tuple[str, float | None, int, str, str, float]:
    hit, spared = _span(finding.hit_s), _span(finding.spared_s)
    return (finding.name, finding.held_s, len(finding.hit_s), hit, spared, finding.recovery_s)


def _span(standstills_s: Mapping[str, float]) -> str:
    if not standstills_s:
        return "-"
    return f"{min(standstills_s.values()):.1f} to {max(standstills_s.values()):.1f}"


def _topic(topic: TopicOutcome) -> tuple[str, str, int, int, int, int, str]:
    verdict = "**wrong**" if topic.differences else "as it should be"
    counts = (topic.partitions, topic.written, topic.source_records, topic.target_records)
    return (topic.topic, topic.kind, *counts, verdict)
