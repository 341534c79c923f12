"""The page in a real browser, over a system in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror_ray.observe.schemas import SchemaStatus
from mirror_ray.observe.status import ElasticStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot
from tests.support.browser import Page, browser
from tests.support.factories import flow_schemas, group_partition_status, group_status, schema_status
from tests.support.waiting import PATIENCE
from tests.unit.observe.values import FLOW, PROBLEM, partition, picture
from tests.web.fakes import TOKEN, FakeSystem, Site, kept

_HOSTILE = "<img src=x onerror=\"document.body.append('broken')\">"

_UNLOCK = f"sessionStorage.setItem('mirror-ray-token', '{TOKEN}')"


@pytest.fixture
async def page(there: Site, tmp_path: Path) -> AsyncIterator[Page]:
    """A browser that shows it, on a laptop; its scripts must not fail."""
    async with browser(tmp_path) as tab:
        await tab.size(1280, 860)
        await tab.open(there.url)
        await tab.wait("document.querySelector('#view .problem, #view .allwell')")
        yield tab
        assert tab.errors == []


def _laggard(system: FakeSystem) -> SystemSnapshot:
    """One topic of many is behind, for a reason."""
    seen = picture(topics=20, problems=())
    stopped = replace(partition(1, "topic-7"), state="stopped", reason="TOPIC_AUTHORIZATION_FAILED", lag_records=9_000)
    partitions = tuple(stopped if (row.topic, row.partition) == ("topic-7", 1) else row for row in seen.partitions)
    topics = tuple(
        replace(row, state="stopped", lag_records=9_000) if row.topic == "topic-7" else row for row in seen.topics
    )
    names = [command[0] for command in system.commands]
    if "pause" in names and "resume" not in names:
        topics = tuple(replace(topic, state="paused") if topic.topic == "topic-7" else topic for topic in topics)
    return replace(seen, topics=topics, partitions=partitions)


async def _press_button(page: Page, label: str) -> None:
    button = f"document.querySelector('button[aria-label=\"{label}\"]')"
    await page.wait(button)
    await page.enter(button)


async def test_find_the_laggard_see_why_pause_resume_and_scale(there: Site, page: Page) -> None:
    """By keyboard alone, from the first view; what is done reaches the system, with the token, once."""
    there.show(_laggard(there.system))
    await page.enter("document.querySelector('nav a[href=\"#/topics\"]')")
    await page.wait("document.querySelector('#view tbody tr:first-child a')?.textContent === 'topic-7'")
    await page.enter("document.querySelector('#view tbody tr:first-child a')")
    await page.wait("document.querySelector('#view tbody tr')?.textContent.includes('TOPIC_AUTHORIZATION_FAILED')")
    await page.evaluate("location.hash = '#/topics'")
    await _press_button(page, "pause topic-7")
    await page.wait("document.querySelector('#ask').open")
    await page.type(TOKEN)
    await page.press("Enter")
    await page.wait("document.querySelector('#outcome').textContent === 'pause: done'")
    there.show(_laggard(there.system))
    await _press_button(page, "resume topic-7")
    await page.wait("document.querySelector('#outcome').textContent === 'resume: done'")
    await page.evaluate("location.hash = '#/replicators'")
    await page.wait("document.querySelector('#wanted')?.value === '2'")
    await page.evaluate("document.querySelector('#wanted').focus(); document.querySelector('#wanted').select()")
    await page.type("3")
    await page.enter("document.querySelector('#view .controls button')")
    await page.wait("document.querySelector('#outcome').textContent === 'scale: done'")
    assert there.system.commands == [
        ("pause", "A->B", "topic-7", None),
        ("resume", "A->B", "topic-7", None),
        ("scale", 3),
    ]


async def test_what_traffic_costs_and_why_there_are_so_many_replicators(there: Site, page: Page) -> None:
    """Costs where a price is known; the bounds that the number keeps to and the last look at the load."""
    seen = picture()
    elastic = ElasticStatus(min_replicators=1, max_replicators=4, wanted=2, pinned=False, why="all is calm")
    there.show(replace(seen, system=replace(seen.system, elastic=elastic)))
    await page.wait("document.querySelector('#view').textContent.includes('A->B: held back by its limits')")
    await page.wait("document.querySelector('#view').textContent.includes('EUR an hour at this rate, at 0.02 a GB')")
    assert await page.evaluate("document.querySelector('#view td.cost').textContent") == "0.50"
    await page.evaluate("location.hash = '#/replicators'")
    await page.wait("document.querySelector('#view').textContent.includes('By load, 1 to 4: all is calm.')")
    free = replace(seen, system=replace(seen.system, price_per_gb=0.0))
    there.show(free)
    await page.evaluate("location.hash = '#/topics'")
    await page.wait("document.querySelector('#view td.cost') && !document.querySelector('#view td.cost').offsetParent")


async def test_a_key_is_changed_after_its_plan_was_shown(there: Site, page: Page) -> None:
    """First nothing is done; the answer is the system's."""
    await page.evaluate(f"{_UNLOCK}; location.hash = '#/change'")
    await page.wait("document.querySelectorAll('#flow option').length === 2")
    await page.evaluate("document.querySelector('#flow').value = 'A->B'")
    for field, text in (("key", "topics.include"), ("value", "orders.*")):
        await page.evaluate(f"document.querySelector('#{field}').focus()")
        await page.type(text)
    for number, said in ((0, "It would be"), (1, "Done")):
        await page.enter(f"document.querySelectorAll('#view button')[{number}]")
        await page.wait(f"document.querySelector('#touched').textContent.startsWith('{said}')")
    changes = {"topics.include": "orders.*"}
    assert there.system.commands == [("set", "A->B", changes, True), ("set", "A->B", changes, False)]


async def test_a_group_is_shown_on_both_sides(there: Site, page: Page) -> None:
    """Its offset on the source, where that is on the target, and where the group stands there."""
    offsets: dict[str, Any] = {"source_offset": 1_200, "target_offset": 1_150, "committed_offset": 1_100}
    partition = group_partition_status(3, state="kept", reason="committed there by somebody else", **offsets)
    there.system.carried = (group_status(partition, state="kept"),)
    await page.evaluate("location.hash = '#/groups'")
    await page.wait("document.querySelector('#view tbody tr')")
    cells = await page.evaluate("[...document.querySelectorAll('#view tbody tr td')].map((cell) => cell.textContent)")
    assert cells == [
        *("billing", "A->B", "orders 3", "kept", "1,200", "1,150", "1,100", "yes"),
        "committed there by somebody else",
    ]


_CONFLICT = (
    "A.orders-value on the target has other schemas than orders-value on the source, and none in common: source: AVRO "
    '{"type":"record","name":"Order","namespace":"com.example.shop","fields":[{"name":"id","type":"long"},'
    '{"name":"customer","type":"string"},{"name":"amount","type":{"type":"bytes","logicalType":"decimal"}}]} | target: '
    'AVRO {"type":"record","name":"Order","namespace":"com.example.shop","fields":[{"name":"key","type":"string"}]}; '
    "give the subject another name in schemas.subjects.map, exclude it, or delete the target's"
)


_CONFLICT_LINES = _CONFLICT.replace(" source:", "\nsource:").replace(" | target:", "\ntarget:")


def _schemas(count: int) -> tuple[SchemaStatus, ...]:
    """So many that are mirrored, one of them deleted; one in conflict, named as they are."""
    mirrored = tuple(schema_status(number, deleted=number == 1) for number in range(1, count + 1))
    conflict = {"target_id": None, "state": "conflict", "problem": _CONFLICT}
    return (*mirrored, schema_status(2, "payments-value", source_id=8, **conflict))


async def _showing(page: Page, rows: int) -> None:
    await page.wait(f"document.querySelectorAll('#view tbody tr:not(:has(td[colspan]))').length === {rows}")


async def test_a_schema_that_is_not_mirrored_is_found_with_both_texts(there: Site, page: Page) -> None:
    """First, and alone where that is asked; the gateway searches and pages; both schemas are shown whole."""
    there.system.schemas_there = _schemas(150)
    await page.evaluate("location.hash = '#/schemas'")
    await _showing(page, 100)
    assert await page.evaluate("document.querySelector('#view .controls .quiet').textContent") == "100 of 151"
    cells = "[...document.querySelectorAll('#view tbody tr')].slice(0, 2).map((row) => [...row.cells].map(text))"
    first = ["payments-value", "A->B", "2", "AVRO", "8", "A.payments-value", "\u2013", "conflict"]
    assert await page.evaluate(cells.replace("text", "(cell) => cell.textContent")) == [first, [_CONFLICT_LINES]]
    assert await page.evaluate("document.documentElement.scrollWidth") <= 1280
    await page.evaluate("[...document.querySelectorAll('#view button')].at(-1).click()")
    await _showing(page, 151)
    assert "mirrored (deleted)" in await page.evaluate("document.querySelector('#view').innerText")
    await page.evaluate("document.querySelector('#trouble').click()")
    await _showing(page, 1)
    await page.evaluate("document.querySelector('#trouble').click()")
    await page.evaluate("document.querySelector('#find').focus()")
    await page.type("ORDERS-VALUE 77")
    await _showing(page, 1)
    await page.size(390, 844)
    await page.evaluate("document.querySelector('#find').value = ''; document.querySelector('#trouble').click()")
    await page.wait("document.querySelector('#view td[colspan]')")
    for what in ("document.documentElement", "document.querySelector('#view .scroll')"):
        await page.wait(f"{what}.scrollWidth <= {what}.clientWidth")


async def test_how_each_flow_mirrors_schemas_is_in_the_overview(there: Site, page: Page) -> None:
    """A line each; nothing at all where none does, and then the view says what to set."""
    seen = picture()
    shown = "[...document.querySelectorAll('#view .card')].find((card) => card.innerText.startsWith('Schemas'))"
    await page.wait(f"{shown}?.querySelectorAll('tbody tr').length === 1")
    cells = f"[...{shown}.querySelectorAll('tbody td')].map((cell) => cell.textContent)"
    assert await page.evaluate(cells) == ["A->B", "translated", "1", "2 / 2", "0", "0.5 s ago"]
    failing = flow_schemas(ids=None, age_s=None, problem="registry B does not answer")
    there.show(replace(seen, system=replace(seen.system, flows=(replace(FLOW, schemas=failing),))))
    await page.wait(f"{shown}.innerText.includes('registry B does not answer')")
    assert (await page.evaluate(cells))[1::4] == ["not decided yet", "\u2013"]
    there.system.schemas_there = None
    there.show(replace(seen, system=replace(seen.system, flows=(replace(FLOW, schemas=None),))))
    await page.wait(f"{shown}.hidden")
    await page.evaluate("location.hash = '#/schemas'")
    await page.wait("document.querySelector('#view').innerText.includes('A.schema.registry.url')")
    assert there.system.schemas_asked == 0


async def test_what_is_wrong_comes_first_and_goes_by_itself(there: Site, page: Page) -> None:
    """With its text and the next step, in the title too; without a reload."""
    shown = "document.querySelector('#view .problem')?.innerText ?? ''"
    assert "orders-3: stopped" in await page.evaluate(shown)
    assert "Next: do something" in await page.evaluate(shown)
    assert (await page.evaluate("document.title")).startswith("(1) mirror-ray")
    there.show(picture(problems=()))
    await page.wait("document.querySelector('#view .allwell')")
    there.system.absent = True
    there.clock.now_s += 60
    await page.wait("document.querySelector('#health').textContent.startsWith('old')")
    assert "coordinator does not answer" in await page.evaluate(shown)


async def test_names_of_others_are_text(there: Site, page: Page) -> None:
    """Topics, reasons and aliases as somebody chose them: no element comes of them."""
    seen = picture(problems=(replace(PROBLEM, subject=_HOSTILE, text=_HOSTILE),))
    flow = replace(FLOW, flow=f"{_HOSTILE}->B")
    topics = (replace(seen.topics[0], topic=_HOSTILE, remote_topic=_HOSTILE, flow=flow.flow),)
    events = (replace(seen.events[0], text=_HOSTILE, number=2),)
    system = replace(seen.system, flows=(flow,))
    later_ms = seen.time_ms + 60_000
    there.system.seen = replace(seen, topics=topics, events=events, system=system, time_ms=later_ms)
    there.system.schemas_there = (schema_status(subject=_HOSTILE, kind=_HOSTILE, problem=_HOSTILE),)
    there.system.kept = (kept(subject=_HOSTILE, after=_HOSTILE, operator=_HOSTILE, error=_HOSTILE),)
    there.clock.now_s += 2
    await page.evaluate(_UNLOCK)
    for view in ("overview", "topics", "schemas", "events", "history", "audit"):
        await page.evaluate(f"location.hash = '#/{view}'")
        await page.wait("document.querySelector('#view').innerText.includes('onerror=')")
        assert await page.evaluate("document.querySelectorAll('#view img').length") == 0
    assert "broken" not in await page.evaluate("document.body.innerText.replaceAll(\"append('broken')\", '')")


async def test_who_changed_what_is_found(there: Site, page: Page) -> None:
    """By keyboard: chosen by what was done, searched by who did it; the newest first."""
    there.system.kept = (
        kept(id="1", operator=None),
        kept(id="2", kind="pause", cluster="", subject="flow A->B", operator="ann@desk", after="paused: orders"),
        kept(id="3", kind="scale", cluster="", subject="system mirror", operator="page 10.0.0.7"),
    )
    await page.evaluate(f"{_UNLOCK}; location.hash = '#/audit'")
    await page.wait("document.querySelectorAll('#view tbody tr').length === 3")
    assert "page 10.0.0.7" in await page.evaluate("document.querySelector('#view tbody tr').textContent")
    assert "mirror coordinator" in await page.evaluate(
        "document.querySelector('#view tbody tr:last-child').textContent"
    )
    chosen = "document.getElementById('kind')"
    await page.evaluate(f"{chosen}.value = 'pause'; {chosen}.dispatchEvent(new Event('change'))")
    await page.wait("document.querySelectorAll('#view tbody tr').length === 1")
    assert "paused: orders" in await page.evaluate("document.querySelector('#view tbody tr').textContent")
    await page.evaluate(f"{chosen}.value = ''; {chosen}.dispatchEvent(new Event('change'))")
    await page.wait("document.querySelectorAll('#view tbody tr').length === 3")
    search = "document.getElementById('who')"
    await page.evaluate(f"{search}.value = 'ANN@'; {search}.dispatchEvent(new Event('input'))")
    await page.wait("document.querySelectorAll('#view tbody tr').length === 1")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_a_phone_shows_every_view_without_scrolling_sideways(there: Site, page: Page, *, dark: bool) -> None:
    """At 390 pixels, and with contrast that can be read: text against its background at least 4.5 to 1."""
    there.system.seen = _laggard(there.system)
    there.system.kept = (kept(after="a-long-name.of-something." * 20, operator="ann@a-machine-with-a-long-name"),)
    there.system.schemas_there = _schemas(3)
    await page.size(390, 844, dark=dark)
    await page.evaluate(_UNLOCK)
    for view in (
        *("overview", "topics", "topic/A-%3EB/orders", "groups", "schemas", "replicators"),
        *("history", "events", "audit"),
    ):
        await page.evaluate(f"location.hash = '#/{view}'")
        await page.wait("document.querySelector('#view .card')")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390, view
    for name in ("--text", "--quiet", "--accent", "--good", "--warn", "--bad"):
        assert await page.evaluate(_CONTRAST.replace("NAME", name)) >= 4.5, name


_CONTRAST = """(() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    let hex = style.getPropertyValue(name).trim().slice(1);
    if (hex.length === 3) hex = [...hex].map((each) => each + each).join("");
    const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
    const [r, g, b] = parts.map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [one, other] = [light("NAME"), light("--card")].sort((a, b) => b - a);
  return (one + 0.05) / (other + 0.05);
})()"""


async def test_five_thousand_partitions_stay_quick(there: Site, page: Page) -> None:
    """A view of all topics, and one of a topic's partitions, are there within a second, where nothing else runs."""
    there.show(picture(topics=500, partitions=10))
    for view, text in (("topics", "100 of 500"), ("topic/A-%3EB/topic-499", "A->B, to A.topic-499")):
        began_s = time.monotonic()
        await page.evaluate(f"location.hash = '#/{view}'")
        await page.wait(f"document.querySelector('#view').innerText.includes('{text}')")
        assert time.monotonic() - began_s < PATIENCE, view
