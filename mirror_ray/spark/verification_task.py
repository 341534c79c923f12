"""What a task of Spark compares: parts of partitions, by connections of its own, as the command does without Spark.

It runs in a Python worker of an executor, and knows nothing of Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.transforms.met_schemas import SchemaCollector
from mirror_ray.verification.first_pass import InProcessFirstPass, TooManyKeysError
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.schema_ids import seen_by


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """Where tasks read, and how. They hold secrets: they are sent with Spark's code, not with its data."""

    source: ClusterSettings
    target: ClusterSettings
    #: Of the source; of the target what is committed is read.
    read_committed: bool
    #: Memory for the keys of a compacted partition.
    max_key_bytes: int


#: The result of a job; None: its keys are too many for one task.
TaskResult = FirstPassResult | None


def compare_jobs(settings: TaskSettings, jobs: Sequence[CompareJob]) -> list[TaskResult] | MirrorError:
    """Compare jobs; one result for each, in order, or the error, which is for the user and not for Spark to retry."""
    try:
        return asyncio.run(_compare(settings, jobs))
    except MirrorError as error:
        return error


async def _compare(settings: TaskSettings, jobs: Sequence[CompareJob]) -> list[TaskResult]:
    flow = f"{settings.source.alias}->{settings.target.alias}"
    source, target = (
        ClusterConnections(cluster, f"{flow}|mirror-ray|verify") for cluster in (settings.source, settings.target)
    )

    async def compare(number: int, job: CompareJob) -> TaskResult:
        purpose = f"verify {number}"
        collector = SchemaCollector(job.schemas) if job.schemas is not None else None
        _, take = seen_by(collector, job.source, None)
        logs = (
            PartitionLog(source, job.source, job.source_topic_id, settings.read_committed, purpose, take=take),
            PartitionLog(target, job.target, job.target_topic_id, True, purpose),
        )
        try:
            (found,) = await InProcessFirstPass(lambda _: logs, max_key_bytes=settings.max_key_bytes).run([job])
        except TooManyKeysError:
            return None
        return found if collector is None else replace(found, met=collector.found())

    try:
        await asyncio.gather(
            source.refresh({job.source.topic for job in jobs}), target.refresh({job.target.topic for job in jobs})
        )
        return await asyncio.gather(*(compare(number, job) for number, job in enumerate(jobs)))
    except OSError as error:
        raise ClusterUnreachableError(f"flow {flow}: {error}") from error
    finally:
        await asyncio.gather(source.close(), target.close())
