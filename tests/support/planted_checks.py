"""Checks of copies with planted differences: by verify, by compare, and by the judge of chaos runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mirror_ray.cli.comparison_table import plain_comparison
from mirror_ray.lab.judge import judge_compacted, judge_copy, judge_merged
from mirror_ray.lab.kafka_client import read_partition, read_placed
from mirror_ray.topics.flow_comparison import compare_flow
from mirror_ray.verification.cluster_queries import no_system
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import PartitionVerdict
from mirror_ray.verification.run import MakeFirstPass, verify_flow
from tests.support.clusters import Clusters
from tests.support.planted_faults import FAULTS, KINDS, Case, Fault, Kind, Place, cases
from tests.support.planting import Planted

#: ``named``: reported as what it is. ``misnamed``: reported as something else. ``not read``: ``compare`` does not read
#: it. ``alarm``: reported of a copy without a fault.
Result = Literal["named", "misnamed", "not read", "missed", "clean", "alarm"]

_NAMES: Mapping[str, frozenset[str]] = {
    "foreign": frozenset({"extra"}),
    "doubled": frozenset({"doubled"}),
    "missing": frozenset({"missing"}),
    "swapped": frozenset({"swapped", "moved"}),
}
#: Kinds of topics that are copied into remote topics with LogAppendTime, too.
_UNTIMED: tuple[Kind, ...] = ("plain", "compacted", "merged")
_PLACES: Sequence[Place] = ("first", "last")
#: Of compacted topics the last record of a key is reported first.
_OF_KEYS = frozenset({"missing", "extra", "changed"})


def every_fault(clusters: Clusters) -> Planted:
    """Every fault in every kind of topic, of copies that have caught up, and among records that are being copied."""
    return Planted(clusters, KINDS, {kind: _every_case(kind) for kind in KINDS})


def _every_case(kind: Kind) -> list[Case]:
    found = cases(kind)
    for fault in FAULTS:
        # Nobody knows whether the last record was to be there already.
        places = _PLACES[:1] if fault == "missing" else _PLACES
        found += [
            Case(kind=kind, partition=number, fault=fault, place=place, under_way=True)
            for number, place in enumerate(places, len(found))
        ]
    return found


def untimed_faults(clusters: Clusters) -> Planted:
    """The same where remote topics set their own timestamps: a different one is no fault there."""
    faults: list[Fault] = [fault for fault in FAULTS if fault != "timestamp"]
    return Planted(clusters, _UNTIMED, {kind: cases(kind, faults) for kind in _UNTIMED}, append_time=True)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check has made of one case, and what it reported."""

    check: str
    case: Case
    result: Result
    text: str

    @property
    def good(self) -> bool:
        """Whether it is as it should be."""
        return self.result in ("named", "clean", "not read")

    def __str__(self) -> str:
        return f"{self.check}, {self.case}: {self.result}: {self.text}"


async def check_by_verify(planted: Planted, make_first_pass: MakeFirstPass | None = None) -> list[CheckResult]:
    """``verify``, and with ``make_first_pass`` ``verify --spark``: one run over all topics."""
    report = await verify_flow(
        planted.settings, planted.flow, VerifyRequest(range_offsets=5), make_first_pass=make_first_pass
    )
    found = {(verdict.topic, verdict.partition): verdict for verdict in report.partitions}
    check = "verify --spark" if make_first_pass else "verify"
    return [
        _verified(check, case, [found[topic, case.partition] for topic in planted.sources(kind)])
        for kind in planted.kinds
        for case in planted.cases[kind]
    ]


def _verified(check: str, case: Case, verdicts: Iterable[PartitionVerdict]) -> CheckResult:
    verdicts = list(verdicts)
    differences = [difference for verdict in verdicts for difference in verdict.checked.differences]
    text = "; ".join(f"{verdict.outcome}: {verdict.text}" for verdict in verdicts)
    differs = any(verdict.outcome == "differs" for verdict in verdicts)
    if case.fault is None:
        equal = all(verdict.outcome == "equal" for verdict in verdicts)
        account = verdicts[0].account
        numbers = (account.not_copied > 0, account.in_flight) == ((True, 3) if case.under_way else (False, 0))
        return CheckResult(check, case, "clean" if equal and numbers else "alarm", f"{text}; {account}")
    named = differs and any(_names(difference, case) for difference in differences)
    return CheckResult(check, case, "named" if named else "missed" if not differs else "misnamed", text)


def _names(difference: Difference, case: Case) -> bool:
    if case.fault == "foreign":
        return difference.kind == "extra" and difference.producer_id is not None
    kinds = _NAMES.get(case.fault or "")
    if case.kind == "compacted" and difference.kind in _OF_KEYS:
        return True
    return difference.kind in kinds if kinds is not None else difference.fields == (case.fault,)


def check_by_compare(planted: Planted) -> list[CheckResult]:
    """``compare``: what others wrote, and what is wrong behind the last acknowledged; it reads no other records."""
    (flow,) = (flow for flow in planted.settings.flows if flow.name == planted.flow)
    compared = compare_flow(planted.settings, flow, (), {}, no_system)
    plain = {row["topic"]: row for row in plain_comparison(compared, compared.topics)["topics"]}
    topics = {topic.pair.topic: topic for topic in compared.topics}
    results = []
    for kind in planted.kinds:
        for case in planted.cases[kind]:
            sides = [topics[name] for name in planted.sources(kind)]
            drift = [text for side in sides for text in side.headers[case.partition].drift]
            reads = any(plain[name]["records_read"] for name in planted.sources(kind))
            results.append(
                CheckResult("compare", case, _compared(case, drift, reads=reads), "; ".join(drift) or "nothing")
            )
    return results


def _compared(case: Case, drift: Sequence[str], *, reads: bool) -> Result:
    if case.fault is None:
        return "alarm" if drift else "clean"
    if drift:
        return "named"
    shown = case.fault == "foreign" or (case.fault, case.place) == ("doubled", "last") or case.under_way
    return "missed" if shown or reads else "not read"


def check_by_chaos(planted: Planted) -> list[CheckResult]:
    """What a chaos run says of its copies when it is over: those that are under check are none of them."""
    at_rest = [case for kind in planted.kinds for case in planted.cases[kind] if not case.under_way]
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(partial(_judged, planted), at_rest))


def _judged(planted: Planted, case: Case) -> CheckResult:
    a, b = planted.clusters
    first, *others = planted.sources(case.kind)
    remote = planted.remote(case.kind)
    copy = read_partition(b, remote, case.partition)
    source = read_partition(a, first, case.partition)
    if others:
        beside = [read_partition(a, name, case.partition) for name in others]
        verdict = judge_merged([source, *beside], copy)
    elif case.kind == "compacted":
        there = read_placed(a, first, case.partition)
        verdict = judge_compacted(there, read_placed(b, remote, case.partition), cleaned=True)
    elif case.kind == "transformed":
        verdict = judge_copy((record._replace(value=(record.value or b"") + b"!") for record in source), copy)
    else:
        verdict = judge_copy(source, copy)
    text = verdict.difference or "no difference"
    if case.fault is None:
        return CheckResult("chaos", case, "clean" if verdict.difference is None else "alarm", text)
    return CheckResult("chaos", case, "named" if verdict.difference is not None else "missed", text)


def table(results: Iterable[CheckResult]) -> str:
    """The results of each check by fault and place, and by kind of topic."""
    lines: list[str] = []
    everything = list(results)
    for check in dict.fromkeys(result.check for result in everything):
        mine = [result for result in everything if result.check == check]
        lines.append(f"{check:<29}" + "".join(f"{kind:>16}" for kind in KINDS))
        rows = dict.fromkeys(
            (result.case.fault, result.case.place if result.case.fault else "", result.case.under_way)
            for result in mine
        )
        for fault, place, under_way in rows:
            cells = []
            for kind in KINDS:
                found = [
                    result.result
                    for result in mine
                    if (result.case.kind, result.case.fault, result.case.under_way) == (kind, fault, under_way)
                    and (not fault or result.case.place == place)
                ]
                cells.append(", ".join(found) or "-")
            what = (f"{fault}, {place}" if fault else "no fault") + (", under check" if under_way else "")
            lines.append(f"  {what:<27}" + "".join(f"{cell:>16}" for cell in cells))
        good = sum(result.good for result in mine)
        lines.append(f"  {good} of {len(mine)} as they should be")
    return "\n".join(lines)
