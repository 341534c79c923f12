"""The ways to look at planted copies: what each is to find, and what it found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mirror_ray.cli.compare import compare_flow
from mirror_ray.cli.comparison_table import plain_comparison
from mirror_ray.lab.judge import judge_compacted, judge_copy, judge_merged
from mirror_ray.lab.kafka_client import read_partition, read_placed
from mirror_ray.verification.cluster_queries import no_system
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import PartitionVerdict
from mirror_ray.verification.run import MakeFirstPass, verify_flow
from tests.support.planted_faults import FAULTS, KINDS, Case, Fault, Kind, Place, cases
from tests.support.planting import Planted

#: ``named``: by its kind and place. ``seen``: as something else. ``not read``: ``compare`` says that it has not looked.
#: ``alarm``: on a copy without a fault.
Result = Literal["named", "seen", "not read", "missed", "clean", "alarm"]

_NAMES: Mapping[str, frozenset[str]] = {
    "foreign": frozenset({"extra"}),
    "doubled": frozenset({"doubled"}),
    "missing": frozenset({"missing"}),
    "swapped": frozenset({"swapped", "moved"}),
}
#: Kinds of topics that are copied into remote topics with LogAppendTime, too.
UNTIMED: tuple[Kind, ...] = ("plain", "compacted", "merged")
_PLACES: Sequence[Place] = ("first", "last")
#: Of compacted topics the last record of a key is told of first.
_OF_KEYS = frozenset({"missing", "extra", "changed"})


def every_case(kind: Kind) -> list[Case]:
    """Those of a copy that has come to its end, and the faults among records that are still under way."""
    found = cases(kind)
    for fault in FAULTS:
        # Of the last one it is not known that it was to be there already.
        places = _PLACES[:1] if fault == "missing" else _PLACES
        found += [
            Case(kind=kind, partition=number, fault=fault, place=place, under_way=True)
            for number, place in enumerate(places, len(found))
        ]
    return found


def untimed_cases(kind: Kind) -> list[Case]:
    """Those where the remote topic sets its own timestamps: another one is no fault there."""
    faults: list[Fault] = [fault for fault in FAULTS if fault != "timestamp"]
    return cases(kind, faults)


@dataclass(frozen=True, slots=True)
class Looked:
    """What one way made of one case, and what it said."""

    way: str
    case: Case
    result: Result
    said: str

    @property
    def good(self) -> bool:
        """Whether it is as it should be."""
        return self.result in ("named", "clean", "not read")


async def by_verify(planted: Planted, make_first_pass: MakeFirstPass | None = None) -> list[Looked]:
    """``verify``, and with ``make_looker`` ``verify --spark``: one run over all topics."""
    report = await verify_flow(
        planted.settings, planted.flow, VerifyRequest(range_offsets=5), make_first_pass=make_first_pass
    )
    found = {(each.topic, each.partition): each for each in report.partitions}
    way = "verify --spark" if make_first_pass else "verify"
    return [
        _verified(way, case, [found[topic, case.partition] for topic in planted.sources(kind)])
        for kind in planted.kinds
        for case in planted.cases[kind]
    ]


def _verified(way: str, case: Case, verdicts: Iterable[PartitionVerdict]) -> Looked:
    verdicts = list(verdicts)
    findings = [each for verdict in verdicts for each in verdict.checked.differences]
    said = "; ".join(f"{each.outcome}: {each.text}" for each in verdicts)
    differs = any(each.outcome == "differs" for each in verdicts)
    if case.fault is None:
        equal = all(each.outcome == "equal" for each in verdicts)
        account = verdicts[0].account
        numbers = (account.not_copied > 0, account.in_flight) == ((True, 3) if case.under_way else (False, 0))
        return Looked(way, case, "clean" if equal and numbers else "alarm", f"{said}; {account}")
    named = differs and any(_names(each, case) for each in findings)
    return Looked(way, case, "named" if named else "missed" if not differs else "seen", said)


def _names(finding: Difference, case: Case) -> bool:
    if case.fault == "foreign":
        return finding.kind == "extra" and finding.producer_id is not None
    kinds = _NAMES.get(case.fault or "")
    if case.kind == "compacted" and finding.kind in _OF_KEYS:
        return True
    return finding.kind in kinds if kinds is not None else finding.fields == (case.fault,)


def by_compare(planted: Planted) -> list[Looked]:
    """``compare``: what others wrote, and what is wrong behind the last acknowledged; it reads no other records."""
    (flow,) = (each for each in planted.settings.flows if each.name == planted.flow)
    compared = compare_flow(planted.settings, flow, (), {}, no_system)
    plain = {each["topic"]: each for each in plain_comparison(compared, compared.topics)["topics"]}
    topics = {each.pair.topic: each for each in compared.topics}
    looked = []
    for kind in planted.kinds:
        for case in planted.cases[kind]:
            sides = [topics[name] for name in planted.sources(kind)]
            drift = [text for each in sides for text in each.headers[case.partition].drift]
            reads = any(plain[name]["records_read"] for name in planted.sources(kind))
            looked.append(Looked("compare", case, _compared(case, drift, reads=reads), "; ".join(drift) or "nothing"))
    return looked


def _compared(case: Case, drift: Sequence[str], *, reads: bool) -> Result:
    if case.fault is None:
        return "alarm" if drift else "clean"
    if drift:
        return "named"
    shown = case.fault == "foreign" or (case.fault, case.place) == ("doubled", "last") or case.under_way
    return "missed" if shown or reads else "not read"


def by_chaos(planted: Planted) -> list[Looked]:
    """What a chaos run says of its copies when it is over: those that are under way are none of them."""
    at_rest = [case for kind in planted.kinds for case in planted.cases[kind] if not case.under_way]
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(partial(_judged, planted), at_rest))


def _judged(planted: Planted, case: Case) -> Looked:
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
        verdict = judge_copy((each._replace(value=(each.value or b"") + b"!") for each in source), copy)
    else:
        verdict = judge_copy(source, copy)
    said = verdict.difference or "no difference"
    if case.fault is None:
        return Looked("chaos", case, "clean" if verdict.difference is None else "alarm", said)
    return Looked("chaos", case, "named" if verdict.difference is not None else "missed", said)


def table(looked: Iterable[Looked]) -> str:
    """Fault and place by kind of topic, for each way: how many were found, missed, or told where there is none."""
    lines: list[str] = []
    everything = list(looked)
    for way in dict.fromkeys(each.way for each in everything):
        mine = [each for each in everything if each.way == way]
        lines.append(f"{way:<29}" + "".join(f"{kind:>16}" for kind in KINDS))
        rows = dict.fromkeys(
            (each.case.fault, each.case.place if each.case.fault else "", each.case.under_way) for each in mine
        )
        for fault, place, under_way in rows:
            cells = []
            for kind in KINDS:
                found = [
                    each.result
                    for each in mine
                    if (each.case.kind, each.case.fault, each.case.under_way) == (kind, fault, under_way)
                    and (not fault or each.case.place == place)
                ]
                cells.append(", ".join(found) or "-")
            what = (f"{fault}, {place}" if fault else "no fault") + (", under way" if under_way else "")
            lines.append(f"  {what:<27}" + "".join(f"{cell:>16}" for cell in cells))
        good = sum(each.good for each in mine)
        lines.append(f"  {good} of {len(mine)} as they should be")
    return "\n".join(lines)
