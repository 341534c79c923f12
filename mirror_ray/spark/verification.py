"""The first pass of a verification, by Spark: tasks read and compare parts of partitions, by the code of the command.

Only what differs comes to this process: numbers of ranges, and of compacted topics the keys. The second pass is that of
a verification without Spark.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.portable_settings import portable
from mirror_ray.model.errors import MirrorError
from mirror_ray.spark.verification_pieces import JobPiece, merged, pieces_of, tasks_of
from mirror_ray.spark.verification_task import TaskResult, TaskSettings, compare_jobs
from mirror_ray.verification.job import CompareJob, FirstPass, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog

#: A partition with fewer offsets is compared in this process: a Spark task with its connections would cost more.
SMALL_OFFSETS = 10_000
#: Memory of a task for the keys of a compacted partition; where they need more, they are divided among more tasks.
MAX_KEY_BYTES = 512 << 20


class SparkFirstPass:
    """Compares large partitions by tasks of Spark, and all others in this process."""

    def __init__(
        self,
        spark: SparkSession,
        clusters: tuple[ClusterSettings, ClusterSettings],
        logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]],
        in_process: FirstPass,
        small_offsets: int = SMALL_OFFSETS,
    ) -> None:
        """``clusters`` are the source and the target; ``logs`` gives a job's partition on both sides.

        ``in_process`` compares partitions with fewer offsets than ``small_offsets``, and transformed ones.
        """
        self._spark, self._clusters, self._logs = spark, clusters, logs
        self._in_process, self._small_offsets = in_process, small_offsets

    async def run(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """Compare all jobs; one result for each, in order.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: A log can't be read, or Spark failed; names its error.
        """
        small = [job for job in jobs if not self._is_for_spark(job)]
        large = [job for job in jobs if self._is_for_spark(job)]
        results = iter(await self._in_process.run(small)), iter(await self._run_large(large))
        return [next(results[self._is_for_spark(job)]) for job in jobs]

    def _is_for_spark(self, job: CompareJob) -> bool:
        """Whether it is worth a task; tasks have no transforms."""
        offsets = sum(compared.source_end - compared.source for compared in job.chosen_ranges)
        return offsets >= self._small_offsets and not job.transformed

    async def _run_large(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        found: dict[int, list[tuple[JobPiece, FirstPassResult]]] = defaultdict(list)
        pieces = [piece for number, job in enumerate(jobs) for piece in pieces_of(number, job)]
        while pieces:
            tasks = tasks_of(pieces, self._spark.sparkContext.defaultParallelism)
            pieces = []
            for piece, result in await asyncio.to_thread(self._compare, tasks):
                if result is None:
                    pieces += piece.divided()
                else:
                    found[piece.number].append((piece, result))
        return [merged(found[number]) for number in range(len(jobs))]

    def _compare(self, tasks: Sequence[Sequence[JobPiece]]) -> list[tuple[JobPiece, TaskResult]]:
        """Run tasks, and wait for all of them."""
        source, target = map(portable, self._clusters)
        settings = TaskSettings(
            source=source,
            target=target,
            read_committed=self._logs(tasks[0][0].job)[0].read_committed,
            max_key_bytes=MAX_KEY_BYTES,
        )
        # Data of an RDD goes through files, code does not: it has the secrets.
        compare = partial(compare_jobs, settings)
        data = self._spark.sparkContext.parallelize([[piece.job for piece in task] for task in tasks], len(tasks))
        try:
            outcomes = data.map(compare).collect()
        except (PySparkException, Py4JJavaError) as error:
            raise MirrorError(
                f"Spark could not compare: {failure_text(str(error))}; its logs are in Ray's session directory, and"
                " without --spark this process compares"
            ) from error
        found: list[tuple[JobPiece, TaskResult]] = []
        for task, outcome in zip(tasks, outcomes, strict=True):
            if isinstance(outcome, MirrorError):
                raise outcome
            found += zip(task, outcome, strict=True)
        return found


def failure_text(text: str) -> str:
    """The line of Spark's error that says most: the last one of Python's traceback, or why Spark gave the job up."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    traceback = next((number for number, line in enumerate(lines) if "Traceback (most" in line), len(lines))
    java = next((number for number, line in enumerate(lines) if number > traceback and line.startswith("at ")), 0)
    if java:
        return lines[java - 1]
    aborted = (line for line in lines if "Job aborted" in line or line.startswith("Caused by"))
    return next(aborted, lines[0] if lines else "it does not say why")
