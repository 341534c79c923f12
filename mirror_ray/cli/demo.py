"""The command demo: two real clusters with live traffic, and flows both ways, all on this machine."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from mirror_ray import own_ray, runtime
from mirror_ray.cli import columns, foreground
from mirror_ray.cli.demo_check import DemoSummary, SystemPositions, partition_reader, summarize, takeover_signs
from mirror_ray.cli.live_view import LiveView
from mirror_ray.cli.options import DEFAULT_NAME, NameOption, SecondsOption, name_option
from mirror_ray.cli.output import count, out, say, table, text
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.model.names import TopicPartition

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.lab.devcluster import ApicurioRegistry, DevCluster
    from mirror_ray.lab.traffic import Traffic

_TOPICS = {"A": ("orders", "payments"), "B": ("clicks",)}
#: Whose values have a schema, with ``--registry``.
_WITH_SCHEMAS = ("orders", "clicks")
_GROUPS = {"A": "billing", "B": "analytics"}
_PARTITIONS = 4
_RATE = 2_000

#: On a busy machine; on a quiet one the flows are never behind by more than a moment.
_CATCH_UP_S = 60.0
_POLL_INTERVAL_S = 0.5


def demo(
    for_s: SecondsOption = None,
    rate: Annotated[int, typer.Option(min=1, help="Records per second, on each cluster.")] = _RATE,
    registry: Annotated[
        bool, typer.Option("--registry", help="With a schema registry beside each cluster, and values with schemas.")
    ] = False,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Run two real Kafka clusters, traffic on both, and flows A->B and B->A on this machine, until Ctrl-C.

    At the end the traffic stops first, and the flows catch up: what was produced is then on both sides. That is
    checked by the ends of the clusters' logs; exit 1, and what is missing, where it is not so.
    """
    claims: list[DemoSummary] = []
    with foreground.interruptible(), ExitStack() as stack:
        with suppress(KeyboardInterrupt):
            _run(stack, name, rate, for_s, claims.append, with_registries=registry)
        say("the demo ends: stopping flows and clusters")
    if not all(claim.holds for claim in claims):
        raise typer.Exit(1)


def _run(
    stack: ExitStack,
    name: str,
    rate: int,
    for_s: float | None,
    report: Callable[[DemoSummary], None],
    *,
    with_registries: bool,
) -> None:
    if own_ray.find(name) is not None:
        end = f"`mirror-ray down{name_option(name)}` ends it"
        raise MirrorError(f"{name} runs already on this machine: {end}, or give the demo a --name")
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirror-ray-demo-")))
    say("starting clusters A and B (the first time, Maven fetches the brokers' jars) ...")
    registries = stack.enter_context(_registries(directory)) if with_registries else {}
    clusters = stack.enter_context(_clusters(directory))
    for started in registries.values():
        started.wait_started()
    config = directory / "mm2.properties"
    settings = _configure(config, clusters, registries)
    traffic = stack.enter_context(_traffic(settings, rate, registries))
    say("starting Ray and the flows A->B and B->A ...")
    system = stack.enter_context(runtime.start(settings, name, None, replicators=None, detach=False)).system
    stack.callback(_end, system, settings, traffic, report)
    token = settings.gateway.token
    hints = _hints(clusters, registries, config, name, token.reveal() if token is not None else "")
    console = out()
    if not console.is_terminal:
        console.print(hints, soft_wrap=True)
    view = LiveView(console, tail=lambda: _tail(system, traffic, hints))
    try:
        foreground.follow(system, view, for_s=for_s)
    except NotRunningError:
        say(f"{name} has been stopped")


@contextmanager
def _clusters(directory: Path) -> Iterator[Sequence[DevCluster]]:
    from mirror_ray.lab.devcluster import QUICK_START, DevCluster
    from mirror_ray.lab.devcluster.clusters import start_all

    with ExitStack() as stack:
        clusters = [DevCluster(alias, data_dir=directory / alias, jvm_options=QUICK_START) for alias in _TOPICS]
        for cluster in clusters:
            stack.callback(cluster.close)
        start_all(clusters)
        yield clusters


@contextmanager
def _registries(directory: Path) -> Iterator[Mapping[str, ApicurioRegistry]]:
    """A registry beside each cluster. They are launched: clusters take longer to start."""
    from mirror_ray.lab.devcluster import ApicurioRegistry

    registries = {alias: ApicurioRegistry(alias, data_dir=directory / f"{alias}-registry") for alias in _TOPICS}
    with ExitStack() as stack:
        for registry in registries.values():
            stack.callback(registry.close)
            registry.launch()
        yield registries


def _configure(
    config: Path, clusters: Sequence[DevCluster], registries: Mapping[str, ApicurioRegistry]
) -> MirrorSettings:
    from mirror_ray.config.load import load_settings
    from mirror_ray.lab.devcluster.clusters import mm2_properties

    # Whoever has it may pause, resume and scale from the web UI.
    properties = mm2_properties(clusters, {alias: registry.url for alias, registry in registries.items()})
    config.write_text(f"{properties}gateway.token = {secrets.token_urlsafe(12)}\n")
    return load_settings(config).settings


@contextmanager
def _traffic(
    settings: MirrorSettings, rate: int, registries: Mapping[str, ApicurioRegistry]
) -> Iterator[Sequence[Traffic]]:
    """Topics, traffic to them, and a group that reads them, on each cluster."""
    from mirror_ray.kafka.audit_log import UNRECORDED
    from mirror_ray.kafka.topic_editor import ClusterEditor
    from mirror_ray.lab.traffic import Traffic, TrafficReader, value_schema
    from mirror_ray.model.topics import NewRemoteTopic

    traffic: list[Traffic] = []
    readers: list[TrafficReader] = []
    for alias, topics in _TOPICS.items():
        admin = ClusterEditor(settings.clusters[alias], "mirror-ray-demo", UNRECORDED)
        wanted = [NewRemoteTopic(name=topic, partitions=_PARTITIONS, replication_factor=1) for topic in topics]
        for error in admin.create_topics(wanted).values():
            if error is not None:
                raise error
        admin.close()
        registry = registries.get(alias)
        ids = {
            topic: registry.register(f"{topic}-value", value_schema(topic), "JSON")
            for topic in topics
            if registry is not None and topic in _WITH_SCHEMAS
        }
        traffic.append(Traffic(settings.clusters[alias], topics, rate, schema_ids=ids))
        readers.append(TrafficReader(settings.clusters[alias], _GROUPS[alias], topics))
    with ExitStack() as stack:
        for thread in (*traffic, *readers):
            thread.start()
            stack.callback(thread.stop)
        yield traffic


def _end(
    system: Mirror, settings: MirrorSettings, traffic: Sequence[Traffic], report: Callable[[DemoSummary], None]
) -> None:
    """Let the flows catch up with what was produced, then stop them; Ctrl-C: stop them as they are."""
    try:
        with suppress(KeyboardInterrupt):
            report(_catch_up(system, settings, traffic))
    except MirrorError as error:
        report(DemoSummary(holds=False, final=True, lines=[str(error)]))
        say(f"what was copied could not be checked: {error}", "red")
    try:
        system.status()
        foreground.drain(system)
    except NotRunningError:
        say(f"{system.name} has been stopped already")
    except MirrorError as error:
        say(str(error), "yellow")


def _catch_up(system: Mirror, settings: MirrorSettings, traffic: Sequence[Traffic]) -> DemoSummary:
    say("stopping the traffic; the flows catch up (Ctrl-C: at once)")
    for producer in traffic:
        producer.stop()
    until_s = time.monotonic() + _CATCH_UP_S
    with (
        partition_reader(settings, {producer.alias: producer.acknowledged for producer in traffic}) as read,
        LiveView(out()) as view,
    ):
        while True:
            running, positions = _read_system(system)
            summary = summarize(read(positions), takeover_signs(settings, running))
            if summary.final or time.monotonic() > until_s:
                break
            view.show(time.monotonic(), system.status(), system.events(5))
            time.sleep(_POLL_INTERVAL_S)
    for line in summary.lines:
        say(line, "green" if summary.holds else "red")
    return summary


def _read_system(system: Mirror) -> tuple[MirrorSettings | None, SystemPositions]:
    """The settings by which the system runs, and its positions by flow and partition; None: it has stopped."""
    try:
        positions = {
            (partition.flow, TopicPartition(partition.topic, partition.partition)): partition.position
            for partition in system.partitions()
        }
        return system.settings(), positions
    except NotRunningError:
        return None, {}


def _hints(
    clusters: Sequence[DevCluster], registries: Mapping[str, ApicurioRegistry], config: Path, name: str, token: str
) -> str:
    option = name_option(name)
    lines = [f"cluster {cluster.name}: {cluster.bootstrap}" for cluster in clusters]
    lines += [f"schema registry {alias}: {registry.url}" for alias, registry in registries.items()]
    lines += [
        f"configuration: {config}",
        f"token to pause, resume and scale from the web UI: {token}",
        "",
        "try next, in another shell:",
        f"  mirror-ray status{option}",
        f"  mirror-ray lag --watch{option}",
        f"  mirror-ray topics -o json{option}",
        f"  mirror-ray groups --group billing --watch{option}",
        *([f"  mirror-ray schemas{option}"] if registries else []),
        f"  mirror-ray scale 2{option}            then   mirror-ray replicators{option}",
        f"  mirror-ray pause 'A->B' orders{option}   then   mirror-ray resume 'A->B' orders{option}",
        f"  mirror-ray plan {config}",
        "Ctrl-C ends everything.",
    ]
    return "\n".join(lines)


def _tail(system: Mirror, traffic: Sequence[Traffic], hints: str) -> RenderableType:
    produced = sum(producer.records for producer in traffic)
    return Group(
        text(f"\n{count(produced)} records produced on both clusters\n", "dim"),
        table(columns.rows(system.topics()), columns.TOPICS),
        text(f"\n{hints}\n", "dim"),
    )
