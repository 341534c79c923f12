"""How soon a schema registry is mirrored, and what it costs when nothing is new.

::

    make bench-schemas
    .venv/bin/python -m mirror_ray.lab.benchmarks.schemas [--subjects 10000] [--versions 5] [--rounds 20]

The source is a registry of this project's tests, by Confluent's API, which is filled before it starts: Avro records,
the last version of each subject with a reference to one of ten shared schemas. The target is such a registry as well,
in both ways of ids, and then Apicurio Registry, which gives ids of its own. The schema sync is what runs in a system,
its internal topic is on a real broker. The first round mirrors everything and publishes the ids, the second one
compares everything, further ones find nothing new. CPU is this process's own; registries and broker share the machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from mirror_ray.config.settings import FlowSettings, RegistrySettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.benchmarks.harness import cluster_settings, elapsed, parse_arguments, show
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.names import FlowName
from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.client import RegistryClient
from mirror_ray.registry.flow_schemas import FlowSchemaSync
from mirror_ray.registry.id_topic import SchemaIdTopic
from mirror_ray.registry.mirror import SchemaMirror
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.subject_rules import subject_rules
from tests.support.import_registry import ImportRegistry

#: Schemas that the others refer to.
SHARED: Final = 10
#: Nothing is compared anew by itself.
NEVER_S: Final = 1e9


def fill(journal: Path, subjects: int, versions: int) -> None:
    """Write what a registry of the tests is to have."""
    with journal.open("w") as lines:

        def put(subject: str, body: dict[str, object]) -> None:
            lines.write(json.dumps(["POST", f"/subjects/{subject}/versions", body]) + "\n")

        for number in range(SHARED):
            put(f"shared.Money{number}", {"schema": record(f"shared.Money{number}", [], "")})
        for version in range(1, versions + 1):
            for number in range(subjects):
                other = f"shared.Money{number % SHARED}" if version == versions else ""
                body: dict[str, object] = {"schema": record(f"org.Order{number}", range(version), other)}
                if other:
                    body["references"] = [{"name": other, "subject": other, "version": 1}]
                put(f"topic-{number:05}-value", body)


def record(name: str, fields: range | list[int], other: str) -> str:
    """An Avro record of some fields; ``other``: the type of one more."""
    listed: list[dict[str, object]] = [{"name": f"field{one}", "type": ["null", "string"]} for one in fields]
    if other:
        listed.append({"name": "other", "type": ["null", other]})
    return json.dumps({"type": "record", "name": name, "fields": listed}, separators=(",", ":"))


@contextmanager
def filled_source(subjects: int, versions: int) -> Iterator[ImportRegistry]:
    """A registry that has everything from its start."""
    source = ImportRegistry("source")
    fill(source.dir / "journal", subjects, versions)
    source.start(300)
    with source:
        yield source


@asynccontextmanager
async def schema_sync(
    alias: str, way: IdsWay, urls: Sequence[str], broker: DevCluster
) -> AsyncIterator[FlowSchemaSync]:
    """What mirrors the first registry into the second one; ``alias``: of the source, no other run's."""
    flow = FlowSettings(name=FlowName(alias, "B"), enabled=True)
    async with AsyncExitStack() as stack:
        connection = ClusterConnections(cluster_settings([broker])["B"], "benchmark")
        stack.push_async_callback(connection.close)
        source, target = [
            SchemaRegistry(await stack.enter_async_context(RegistryClient(side, RegistrySettings(urls=(url,)))))
            for side, url in zip("AB", urls, strict=True)
        ]
        topic = SchemaIdTopic(connection, alias, None)
        await topic.open("benchmark", UNRECORDED)
        yield FlowSchemaSync(
            source,
            target,
            topic,
            lambda chosen: SchemaMirror(source, target, subject_rules(flow), chosen, UNRECORDED),
            way,
            full_interval_s=NEVER_S,
            absent_after_s=None,
            report=lambda *_: None,
        )


async def measure(title: str, sync: FlowSchemaSync, rounds: int) -> None:
    """Mirror, compare, and find nothing new; show what each took."""
    with elapsed() as first:
        await sync.round(())
    mirror, sent = sync.mirror, sync.requests
    if mirror is None or mirror.problems or len(mirror.mirrored) < len(mirror.schemas):
        raise SystemExit(f"{title}: not everything was mirrored: {mirror and list(mirror.problems.values())[:3]}")
    with elapsed() as second:
        await mirror.mirror_all()
        while mirror.settings.due:
            await mirror.settings.settle_some()
    compared = sync.requests
    with elapsed() as idle:
        for _ in range(rounds):
            await sync.round(())
    rate, asked = len(mirror.mirrored) / first.seconds, (sync.requests - compared) / rounds
    show(title, f"{first.seconds:.1f} s", f"{rate:.0f}/s", f"{first.cpu_s:.1f} s", f"{sent}")
    show("  all compared again", f"{second.seconds:.1f} s", "", f"{second.cpu_s:.1f} s", f"{compared - sent}")
    took_ms, cpu_ms = (1000 * spent / rounds for spent in (idle.seconds, idle.cpu_s))
    show("  nothing new", f"{took_ms:.1f} ms", "", f"{cpu_ms:.1f} ms", f"{asked:g}")


async def run(subjects: int, versions: int, rounds: int) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(filled_source(subjects, versions))
        broker = stack.enter_context(DevCluster("B", heap="512m"))
        show(f"{subjects} subjects x {versions} versions", "took", "schemas", "CPU", "requests")
        for title, way, target in targets():
            with target:
                async with schema_sync(f"{title}-{way}", way, (source.url, target.url), broker) as sync:
                    await measure(f"{title}, {way}", sync, rounds)


def targets() -> Iterator[tuple[str, IdsWay, ImportRegistry | ApicurioRegistry]]:
    """What is mirrored into."""
    yield "tests", "translated", ImportRegistry("translated")
    yield "tests", "same", ImportRegistry("same")
    yield "apicurio", "translated", ApicurioRegistry("apicurio", heap="1g")


def main() -> None:
    options = parse_arguments(
        __doc__,
        subjects=(10_000, "beside those that the others refer to"),
        versions=(5, "of each"),
        rounds=(20, "in which nothing is new"),
    )
    asyncio.run(run(options.subjects, options.versions, options.rounds))


if __name__ == "__main__":
    main()
