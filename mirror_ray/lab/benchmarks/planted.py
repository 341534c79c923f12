"""Whether every check of copies finds every planted difference, and none where there is none.

::

    make planted
    .venv/bin/python -m mirror_ray.lab.benchmarks.planted [--no-spark]

Foreign, doubled, missing, changed and swapped records at the first, a middle and the last position of plain,
transactional, compacted, merged, transformed, rebatched (small batches have become a large one) and LogAppendTime
topics, among records under way, and where the target has LogAppendTime; by ``verify``, ``verify --spark``, ``compare``
and, of copies at rest, the functions by which ``mirror-ray chaos`` judges. Ends with 1 where one was missed, or
reported of a copy without a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mirror_ray.config.settings import SparkSettings
from mirror_ray.lab.benchmarks.harness import cluster_pair, elapsed, parse_arguments
from mirror_ray.runtime import some_ray
from mirror_ray.spark.session import spark_session
from mirror_ray.spark.verification import SparkFirstPass
from tests.support.clusters import Clusters
from tests.support.planted_checks import (
    CheckResult,
    check_by_chaos,
    check_by_compare,
    check_by_verify,
    every_fault,
    table,
    untimed_faults,
)
from tests.support.planting import Planted


def check_by_spark(planted: Planted) -> list[CheckResult]:
    with some_ray("planted", None), spark_session("planted", SparkSettings(), print) as session:
        both = planted.settings.clusters[planted.mark], planted.settings.clusters["B"]

        def make_first_pass(logs: object, plain: object) -> SparkFirstPass:
            return SparkFirstPass(session, both, logs, plain, small_offsets=1)  # type: ignore[arg-type]

        return asyncio.run(check_by_verify(planted, make_first_pass))


def run_checks(planted: Planted, *, spark: bool) -> list[CheckResult]:
    """Run every check, and print how long each took."""
    checks: dict[str, Callable[[], list[CheckResult]]] = {
        "verify": lambda: asyncio.run(check_by_verify(planted)),
        "compare": lambda: check_by_compare(planted),
    }
    if not planted.append_time:
        checks["chaos"] = lambda: check_by_chaos(planted)
    if spark:
        checks["verify --spark"] = lambda: check_by_spark(planted)
    results: list[CheckResult] = []
    for name, check in checks.items():
        with elapsed() as measured:
            results += check()
        print(f"{name}: {measured.seconds:.1f} s", flush=True)
    return results


def main() -> None:
    options = parse_arguments(__doc__, no_spark=(False, "without verify --spark"))
    results: list[CheckResult] = []
    with cluster_pair("512m") as pair:
        clusters = Clusters(*pair)
        for planted in (every_fault(clusters), untimed_faults(clusters)):
            asyncio.run(planted.plant())
            some = run_checks(planted, spark=not options.no_spark)
            print(table(some))
            results += some
    wrong = [result for result in results if not result.good]
    for result in wrong:
        print(result)
    found = sum(result.case.fault is not None and result.result == "named" for result in results)
    print(f"{found} faults found, {len(wrong)} results are not what they should be")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
