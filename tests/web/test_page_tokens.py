"""The page by tokens, in a real browser: of somebody who looks, and of somebody who acts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.browser import Page, browser
from tests.web.fakes import ALICE, BOB, USERS, Site, kept, site

_HEALTH = "document.querySelector('#health').textContent"
_PAUSE = "document.querySelector('button[aria-label=\"pause orders\"]')"


@pytest.fixture
async def there() -> AsyncIterator[Site]:
    """A server that shows nothing without a token."""
    async with site(token=None, tokens=USERS, reading="token") as served:
        yield served


@pytest.fixture
async def page(there: Site, tmp_path: Path) -> AsyncIterator[Page]:
    """A browser that has opened it; its scripts must not fail."""
    async with browser(tmp_path) as tab:
        await tab.size(1280, 860)
        await tab.open(f"{there.url}/#/topics")
        yield tab
        # The browser itself tells of each answer that refuses, and of connections that end.
        assert [error for error in tab.errors if "'source': 'network'" not in error] == []


async def _unlock(page: Page, token: str) -> None:
    await page.wait("document.querySelector('#ask').open")
    await page.type(token)
    await page.press("Enter")


async def test_it_asks_for_a_token_and_shows_what_that_may_see(there: Site, page: Page) -> None:
    """Nothing before; a wrong one is reported; one for reading does not act, and another one does, by its name."""
    await _unlock(page, "not-a-token-of-anybody")
    await page.wait("document.querySelector('#token').textContent === 'Unlock'")
    await page.wait(f"{_HEALTH}.includes('a token is needed')")
    assert not await page.evaluate("document.querySelector('#view tbody tr')?.textContent.includes('orders') ?? false")
    await page.enter("document.querySelector('#token')")
    await _unlock(page, BOB)
    await page.wait(_PAUSE)
    await page.enter(f"{_PAUSE}")
    await page.wait("document.querySelector('#outcome').textContent.includes('bob may look, and not act')")
    for _ in range(2):
        await page.enter("document.querySelector('#token')")
    await _unlock(page, ALICE)
    await page.wait(f"{_HEALTH}.includes('problem')")
    await page.enter(f"{_PAUSE}")
    await page.wait("document.querySelector('#outcome').textContent === 'pause: done'")
    assert (there.system.commands, there.system.operators) == (
        [("pause", "A->B", "orders", None)],
        ["page alice@127.0.0.1"],
    )


async def test_it_asks_once_whoever_is_refused_first(there: Site, tmp_path: Path) -> None:
    """The stream's refusal opens the dialog; that of the view, which comes late, does not open it again."""
    async with browser(tmp_path) as page:
        late = (
            "{ const real = window.fetch; window.fetch = async (path, ...rest) => {"
            " const answer = await real(path, ...rest);"
            " if (path === '/api/v1/topics') await new Promise((done) => setTimeout(done, 1500)); return answer; }; }"
        )
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=late)
        await page.open(f"{there.url}/#/topics")
        await page.wait("document.querySelector('#ask').open")
        await page.press("Escape")
        await page.wait("!document.querySelector('#ask').open")
        await asyncio.sleep(2.5)
        assert not await page.evaluate("document.querySelector('#ask').open")


async def test_a_late_refusal_is_of_the_token_that_was_asked_with(page: Page) -> None:
    """What was asked for without a token, and is refused when one is there by now, does not take that one away."""
    await page.evaluate(
        "{ const real = window.fetch; window.fetch = async (...asked) => { const answer = await real(...asked);"
        " if (answer.status === 401) await new Promise((done) => setTimeout(done, 1900)); return answer; }; }"
    )
    await asyncio.sleep(2.5)
    await _unlock(page, BOB)
    await page.wait(_PAUSE)
    await asyncio.sleep(2.5)
    assert await page.evaluate("document.querySelector('#token').textContent") == "Lock"
    assert await page.evaluate(f"{_PAUSE} !== null")


async def test_one_view_may_want_a_token(tmp_path: Path) -> None:
    """The audit log, where looking at the rest needs none."""
    async with site(token=None, tokens=USERS) as there, browser(tmp_path) as page:
        there.system.kept = (kept(kind="pause", operator="ann@desk"),)
        await page.open(f"{there.url}/#/audit")
        await page.wait(f"{_HEALTH}.includes('problem')")
        await _unlock(page, BOB)
        await page.wait("document.querySelector('#view tbody tr')?.textContent.includes('ann@desk') ?? false")


async def test_what_is_followed_is_followed_again(there: Site, page: Page) -> None:
    """When the gateway was away, or gave the place to somebody else: each event is shown once."""
    await _unlock(page, ALICE)
    await page.wait(_PAUSE)
    await page.evaluate("location.hash = '#/events'")
    await page.wait("document.querySelectorAll('#view tbody tr').length === 1")
    await there.end_streams()
    await page.wait(f"{_HEALTH}.includes('does not answer')")
    await page.wait(f"{_HEALTH}.includes('problem')")
    assert await page.evaluate("document.querySelectorAll('#view tbody tr').length") == 1
