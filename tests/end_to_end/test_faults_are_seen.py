"""Faults made on purpose are seen within 15 s: in `status`, metrics, on the page and by an alert, in one wording.

Real brokers, a real Ray, a real Prometheus with our rules, a real browser.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from prometheus_client.parser import text_string_to_metric_families

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import AlertSettings
from mirror_ray.lab.devcluster import DevCluster, DevListener
from mirror_ray.lab.traffic import Traffic, TrafficReader
from mirror_ray.mirror import Mirror
from mirror_ray.observe.problems import Problem, ProblemKind
from tests.support.browser import Page, browser
from tests.support.clusters import Clusters, KafkaCluster, Reachable, TopicMaker, cluster_settings
from tests.support.kafka import produce, sample_messages
from tests.support.monitoring import ALERTS, DASHBOARDS, RECORDED, alert_name, panels
from tests.support.processes import kill_process
from tests.support.prometheus import Prometheus, scraping
from tests.support.rights import grant
from tests.support.systems import run, settings_of
from tests.support.waiting import wait_until_async

_WITHIN_S = 15.0
_TOKEN = "let-me-in-for-once"


@dataclass
class Scene:
    """A system with everything that looks at it."""

    mirror: Mirror
    url: str
    prometheus: Prometheus
    page: Page
    topic: str
    guarded_topic: str

    async def problem(self, kind: ProblemKind, subject: str) -> Problem | None:
        """What ``status`` says."""
        status = await asyncio.to_thread(self.mirror.status)
        return next((each for each in status.problems if each.kind == kind and subject in each.subject), None)

    async def seen_everywhere(self, kind: ProblemKind, subject: str, since_s: float) -> None:
        """Everybody who looks sees it, in the words of ``status``, within 15 s of ``since_s``."""
        problem: Problem | None = None
        missing: list[str] = []
        while time.monotonic() - since_s < _WITHIN_S:
            problem = await self.problem(kind, subject)
            missing = await self._missing(problem) if problem is not None else ["status"]
            if not missing:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"{kind} of {subject} is not seen by {missing}: {problem}; {self.mirror.status()}")

    async def _missing(self, problem: Problem) -> list[str]:
        shown: str = await self.page.evaluate("document.querySelector('#view').textContent")
        told = {
            "the metrics": problem.text in await asyncio.to_thread(self._texts),
            "the page": problem.text in shown and problem.remedy in shown,
            "its alert": (alert_name(problem.kind), f"{problem.subject}: {problem.text}") in await self._alerts(),
        }
        return [name for name, seen in told.items() if not seen]

    def _texts(self) -> set[str]:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples = (sample for family in families for sample in family.samples)
        return {sample.labels["text"] for sample in samples if sample.name == "mirror_ray_problem"}

    async def _alerts(self) -> set[tuple[str, str]]:
        firing = await asyncio.to_thread(self.prometheus.firing)
        return {(each["labels"]["alertname"], each["annotations"]["summary"]) for each in firing}


@pytest.fixture
async def scene(
    clusters: Clusters, fragile: DevCluster, guarded: DevListener, make_topic: TopicMaker, system: str, tmp_path: Path
) -> AsyncIterator[Scene]:
    """A->F, whose target can be held still and killed, and G->B, whose source can take a right away."""
    topic, forbidden = make_topic(clusters.a, 2), make_topic(guarded, 1)
    grant(guarded, forbidden, AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    produce(guarded.confluent_config(), forbidden, sample_messages(10))
    there: dict[str, Reachable] = {"A": clusters.a, "B": clusters.b, "F": fragile, "G": guarded}
    settings = settings_of(there, "A->F", "G->B", topics=f"{topic}|{forbidden}", replicators=2, gateway=True)
    alice = settings.clusters | {"G": cluster_settings("G", guarded, "alice")}
    alerts = AlertSettings(lag_growing_s=3.0)
    changed = {"clusters": alice, "alerts": alerts, "gateway": GatewaySettings(token=Secret(_TOKEN))}
    settings = settings.model_copy(update={**changed, "replicator_cpus": 0.2})
    traffic, reader = (
        Traffic(settings.clusters["A"], [topic], 500),
        TrafficReader(settings.clusters["A"], topic, [topic]),
    )
    traffic.start()
    reader.start()
    try:
        mirror = await asyncio.to_thread(run, system, settings)
        url = await wait_until_async(lambda: _gateway(mirror), 40, "the page is up")
        assert url is not None
        (tmp_path / "browser").mkdir()
        with scraping(url.removeprefix("http://"), tmp_path, "1s") as prometheus:
            async with browser(tmp_path / "browser") as page:
                await page.open(url)
                yield Scene(mirror, url, prometheus, page, topic, forbidden)
    finally:
        reader.stop()
        traffic.stop()


async def _gateway(mirror: Mirror) -> str | None:
    return (await asyncio.to_thread(mirror.status)).gateway


async def test_each_fault_is_seen_everywhere_in_the_same_words(
    scene: Scene, fragile: DevCluster, guarded: DevListener
) -> None:
    """A right taken away, a replicator killed, lag growing, a target down; and every panel and rule has its series.

    Before that the page is used: pause a topic, resume it, add a replicator.
    """

    async def calm() -> bool:
        flows = (await asyncio.to_thread(scene.mirror.status)).flows
        return all(flow.state == "running" and flow.lag_records is not None for flow in flows)

    await wait_until_async(calm, 40, "both flows run")
    await _every_query_finds_its_series(scene.prometheus)

    await _use_the_page(scene)

    began_s = time.monotonic()
    _withdraw(guarded, scene.guarded_topic)
    await scene.seen_everywhere("partition_stopped", scene.guarded_topic, began_s)

    began_s = time.monotonic()
    victim = scene.mirror.replicators[0]
    kill_process(victim.pid)
    await scene.seen_everywhere("replicator_died", victim.id, began_s)

    await wait_until_async(lambda: _copies(scene), 20, "A->F copies again")
    began_s = time.monotonic()
    fragile.broker(1).suspend()
    try:
        await scene.seen_everywhere("lag_growing", "A->F", began_s)
    finally:
        fragile.broker(1).resume()

    began_s = time.monotonic()
    fragile.broker(1).kill()
    await scene.seen_everywhere("flow_down", "A->F", began_s)
    assert scene.page.errors == []


async def _use_the_page(scene: Scene) -> None:
    """What is done there is done to the system."""
    page = scene.page

    async def press(button: str) -> None:
        await page.wait(f"document.querySelector('{button}')")
        await page.evaluate(f"document.querySelector('{button}').click()")

    async def states() -> set[str]:
        topics = await asyncio.to_thread(scene.mirror.topics)
        return {each.state for each in topics if each.topic == scene.topic}

    async def complete() -> bool:
        found = await asyncio.to_thread(lambda: scene.mirror.replicators)
        return [each.state for each in found] == ["running"] * 3

    await page.evaluate("location.hash = '#/topics'")
    await press(f'button[aria-label="pause {scene.topic}"]')
    await page.wait("document.querySelector('#ask').open")
    await page.type(_TOKEN)
    await press("#ask-ok")
    await wait_until_async(lambda: _is(states, {"paused"}), 10, "paused")
    await press(f'button[aria-label="resume {scene.topic}"]')
    await wait_until_async(lambda: _is(states, {"copying"}), 10, "copying again")
    await page.evaluate("location.hash = '#/replicators'")
    await page.wait("document.querySelector('#wanted')?.value === '2'")
    await page.evaluate("document.querySelector('#wanted').value = '3'")
    await press("#view .controls button")
    await wait_until_async(complete, 20, "three replicators")
    await page.evaluate("location.hash = '#/overview'")


async def _is(states: Callable[[], Awaitable[set[str]]], wanted: set[str]) -> bool:
    return await states() == wanted


async def _copies(scene: Scene) -> bool:
    flows = (await asyncio.to_thread(scene.mirror.status)).flows
    return next(flow.records_per_s > 100 and flow.copying == flow.partitions for flow in flows if flow.flow == "A->F")


async def _every_query_finds_its_series(prometheus: Prometheus) -> None:
    """All that panels ask for; what a recording rule gives; and that the rules themselves are well."""
    # A system without problems has no series of them.
    of_panels = [
        target["expr"]
        for board in DASHBOARDS.values()
        for panel in panels(board)
        for target in panel["targets"]
        if panel["title"] != "Problems"
    ]

    def empty() -> list[str]:
        asked = [_as_asked(expression) for expression in of_panels]
        return [query for query in [*asked, *RECORDED] if not prometheus.query(query)]

    found: list[str] = []

    async def all_there() -> bool:
        found[:] = await asyncio.to_thread(empty)
        return not found

    try:
        await wait_until_async(all_there, 30, "every panel and rule has its series")
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    assert {alert["alert"] for alert in ALERTS} == await asyncio.to_thread(prometheus.healthy_alerts)


def _as_asked(expression: str) -> str:
    """With every choice open, as Grafana sends it."""
    for choice in ("$source", "$target", "$topic"):
        expression = expression.replace(choice, ".*")
    return expression.replace("$__rate_interval", "30s")


def _withdraw(cluster: KafkaCluster, topic: str) -> None:
    which = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ANY,
    )
    admin = AdminClient(dict(cluster.confluent_config()))
    assert admin.delete_acls([which])[which].result(20)
