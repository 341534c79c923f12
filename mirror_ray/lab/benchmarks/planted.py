"""Whether every fault that is planted in a copy is found, by every way to look at it, and none where there is none.

::

    .venv/bin/python -m mirror_ray.lab.benchmarks.planted [--no-spark]

Foreign, doubled, missing, changed and swapped records at the first, a middle and the last position of plain,
transactional, compacted, merged, transformed and LogAppendTime topics, among records under way, and where the target
has LogAppendTime; by ``verify``, ``verify --spark``, ``compare`` and, of copies at rest, the functions by which
``mirror-ray chaos`` judges. Ends with 1 where one was missed, or told of a copy without a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import ExitStack

from mirror_ray.cli.launch import some_ray
from mirror_ray.config.settings import SparkSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import start_all
from mirror_ray.spark.session import spark_session
from mirror_ray.spark.verification import SparkFirstPass
from tests.support.clusters import Clusters
from tests.support.planted_faults import KINDS
from tests.support.planted_ways import (
    UNTIMED,
    Looked,
    by_chaos,
    by_compare,
    by_verify,
    every_case,
    table,
    untimed_cases,
)
from tests.support.planting import Planted


def look(planted: Planted, *, spark: bool) -> list[Looked]:
    """By all ways; prints how long each took."""
    looked: list[Looked] = []
    began_s = time.monotonic()

    def told(way: str, found: list[Looked]) -> None:
        nonlocal began_s
        print(f"{way}: {time.monotonic() - began_s:.1f} s", flush=True)
        looked.extend(found)
        began_s = time.monotonic()

    told("verify", asyncio.run(by_verify(planted)))
    told("compare", by_compare(planted))
    if not planted.append_time:
        told("chaos", by_chaos(planted))
    if spark:
        with ExitStack() as stack:
            stack.enter_context(some_ray("planted", None))
            session = stack.enter_context(spark_session("planted", SparkSettings(), print))
            both = planted.settings.clusters[planted.mark], planted.settings.clusters["B"]

            def looker(logs: object, plain: object) -> SparkFirstPass:
                return SparkFirstPass(session, both, logs, plain, small_offsets=1)  # type: ignore[arg-type]

            told("verify --spark", asyncio.run(by_verify(planted, looker)))
    return looked


def main() -> None:
    """Start brokers, plant, look, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-spark", action="store_true", help="without verify --spark")
    options = parser.parse_args()
    pair = DevCluster("A"), DevCluster("B")
    try:
        start_all(pair)
        clusters = Clusters(*pair)
        looked: list[Looked] = []
        for planted in (
            Planted(clusters, KINDS, {kind: every_case(kind) for kind in KINDS}),
            Planted(clusters, UNTIMED, {kind: untimed_cases(kind) for kind in UNTIMED}, append_time=True),
        ):
            asyncio.run(planted.plant())
            some = look(planted, spark=not options.no_spark)
            print(table(some))
            looked += some
    finally:
        for cluster in pair:
            cluster.close()
    wrong = [each for each in looked if not each.good]
    for result in wrong:
        print(f"{result.way}, {result.case}: {result.result}: {result.said}")
    found = sum(each.case.fault is not None and each.result == "named" for each in looked)
    print(f"{found} faults found, {len(wrong)} results are not what they should be")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
