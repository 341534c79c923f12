"""The report: medians, ratios, goals, pictures."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from mirror_ray.lab.bench.bench_report import BenchResults, bench_report, described, picture, summary, verdict
from mirror_ray.lab.bench.goals import goal_results
from mirror_ray.lab.bench.results import MeasuredRun, MeasurementResult, rows
from mirror_ray.lab.bench.workloads import workloads
from mirror_ray.lab.judge import CopyResult


def throughput(contender: str, result: MeasurementResult) -> MeasuredRun:
    """One run of the workload throughput."""
    return MeasuredRun(workload="throughput", case="", contender=contender, result=result)


def copied(contender: str, records_per_s: float, judgement: CopyResult | None = None) -> MeasuredRun:
    """One run that copied at this rate."""
    figures = {"records_per_s": records_per_s, "cpu_s_per_million": 1e6 / records_per_s}
    result = MeasurementResult(figures=figures, judgement=judgement or CopyResult(copied=1000))
    return throughput(contender, result)


MEASURES = [
    copied("mirror-ray", 700_000),
    copied("mirror-ray", 900_000),
    copied("mirror-ray", 800_000),
    copied("mm2 tuned", 100_000),
    copied("mm2", 40_000, judgement=CopyResult(copied=900, lost=100, doubled=3)),
    throughput("mm2 eos", MeasurementResult(note="not measured: it <ended> | at once")),
]
RESULTS = BenchResults(
    workloads=workloads(quick=True),
    rows=rows(MEASURES),
    machine="A machine.",
    versions="Versions.",
    command="bench",
    cores=2,
)


def test_rows_are_medians_with_their_spread() -> None:
    """Over three runs."""
    first = rows(MEASURES)[0]
    assert (first.runs, first.judgement) == (3, CopyResult(copied=3000))
    spread = first.figures["records_per_s"]
    assert (spread.least, spread.median, spread.most) == (700_000, 800_000, 900_000)


def test_summary_compares_with_mm2_tuned() -> None:
    """One line says how much better."""
    (line,) = [line for line in summary(RESULTS.rows).splitlines() if line.startswith("| throughput")]
    assert line == "| throughput |  | records/s | 800 k | 100 k | 40 k | 8.0 times |"


def test_goals() -> None:
    """By medians of the same benchmark; what was not measured is left out."""
    found = {result.goal.description: result for result in goal_results(RESULTS.rows)}
    rate = found["records/s, 1 KB in zstd batches"]
    assert not rate.reached
    assert (rate.wanted, rate.measured) == ("at least 1 M (10.0 times of mm2 tuned's 100 k)", "800 k (8.0 times)")
    assert found["CPU for a million of them"].reached is False
    assert "p99 latency at 500 records/s" not in found


def test_no_goal_is_measured_by_nothing() -> None:
    """A contender that copied nothing is no measure."""
    assert goal_results(rows([copied("mirror-ray", 1000), copied("mm2 tuned", 1e-9)]))
    nothing = throughput("mm2 tuned", MeasurementResult(figures={"records_per_s": 0.0}))
    assert goal_results(rows([copied("mirror-ray", 1000), nothing])) == []


def test_document_says_what_was_lost_and_what_failed() -> None:
    """In the row of whoever lost it."""
    text = bench_report(RESULTS, {"throughput": "throughput.svg"})
    assert "| mm2 | 40 k | 25 s | 100 lost, 3 doubled |" in text
    assert "| mirror-ray | 800 k (700 k to 900 k) |" in text
    assert "![Records of 1 KB, zstd, 500 in a batch](throughput.svg)" in text
    assert "- mm2 eos: not measured: it <ended> | at once" in text
    assert "## trickle" not in text


def test_document_says_what_bounds_a_rate_and_a_latency() -> None:
    """From the processor time of all who took part, and from the floor."""
    cpu = {"cpu_s_per_million": 0.5, "source_cpu_s_per_million": 0.5, "target_cpu_s_per_million": 1.0}
    rate = {"records_per_s": 900_000, "seconds": 1.0, **cpu}
    measures = [
        throughput("mirror-ray", MeasurementResult(figures=rate, judgement=CopyResult(copied=900_000))),
        throughput("floor", MeasurementResult(figures={"records_per_s": 1_000_000})),
        MeasuredRun(
            workload="trickle",
            case="",
            contender="mirror-ray",
            result=MeasurementResult(figures={"latency_p99_ms": 12}),
        ),
        MeasuredRun(
            workload="trickle", case="", contender="floor", result=MeasurementResult(figures={"latency_p99_ms": 4})
        ),
    ]
    text = bench_report(replace(RESULTS, rows=rows(measures)), {})
    bound = "0.45 | 0.45 | 0.90 | 1.80 | the processors, 50% of their work is that of the target brokers |"
    assert f"| throughput |  | mirror-ray | 900 k | 90% | {bound}" in text
    assert "| trickle |  | 12 ms | 4 ms |" in text
    assert "What bounds it" not in bench_report(RESULTS, {})


def test_picture_is_xml_that_stands_alone() -> None:
    """A bar for each contender that was measured."""
    throughput, *_, restart = RESULTS.workloads
    root = ET.fromstring(picture(throughput, RESULTS.rows))  # noqa: S314 - written by the project itself
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) == 3
    assert picture(restart, RESULTS.rows) == ""


def test_verdicts() -> None:
    """In words."""
    assert verdict(CopyResult(copied=5)) == "equal"
    assert verdict(CopyResult(lost=1200, foreign=1)) == "1,200 lost, 1 foreign"
    assert verdict(CopyResult(reordered=2)) == "2 partitions in another order"


def test_a_measure_in_one_line() -> None:
    """As it is told when it is made."""
    assert described(MEASURES[3]) == "throughput: records/s 100 k, CPU for 1 M 10 s, copy equal"
    assert described(MEASURES[5]) == "throughput: not measured: it <ended> | at once"
