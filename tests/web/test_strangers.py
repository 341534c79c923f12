"""Strangers at the gateway: wrong tokens, bytes that are no HTTP, connections that wait for nothing."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.web.client_limits import BOUNDS
from mirror_ray.web.connections import victim
from tests.support.waiting import wait_until_async
from tests.web.fakes import TOKEN, Site, site, tracebacks
from tests.web.raw import PAUSE, act, request, send, status

_TOKEN = TOKEN.encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 200,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX\x00: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(b"X%d: a\r\n" % n for n in range(2000)) + b"\r\n",
        b"\xff\xfe \xfd HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_writes_no_traceback(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is refused, and counted; one line reports all that came."""
    async with site() as there:
        for _ in range(3):
            assert status(await send(there.port, sent)) in (400, 431)
        there.clock.now_s += BOUNDS.first_report_s
        there.access.notices()
        assert (await there.get("/healthz"))[0] == 200
    assert not tracebacks(caplog)
    assert len(caplog.records) <= 1


async def test_a_body_may_come_in_pieces(there: Site) -> None:
    """A proxy, a TLS terminator, a slow link split it anywhere."""
    data = act(b'{"flow": "A->B", "topic": "orders"}', _TOKEN)
    head = data.index(b"\r\n\r\n") + 4
    for at in (head, head + 12, len(data) - 1):
        assert status(await send(there.port, data[:at], data[at:])) == 200
    assert there.system.commands == [("pause", "A->B", "orders", None)] * 3


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_413(announced: bool) -> None:
    """Whether it says its length before or comes in chunks."""
    body = b'{"flow": "' + b"a" * 100_000 + b'"}'
    async with site() as there:
        data = act(body, _TOKEN)
        if not announced:
            chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            data = data.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked").replace(body, chunk)
        assert status(await send(there.port, data)) == 413
        assert there.system.commands == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[" * 60_000, "nested too deeply"),
        (b'{"flow":' * 8_000, "nested too deeply"),
        (b'{"flow": "\\ud800"}', "no Unicode"),
        (b'{"flow": "A->B", "topic": "\\udfff\\ud800"}', "no Unicode"),
        (b'{"flow": "A->B", "\\ud800": 1}', "no Unicode"),
        (b'{"flow": "A->B", "x": [{"y": "\\ud83d"}]}', "no Unicode"),
        (b'{"flow": "\xff"}', "no Unicode"),
        (b'{"flow": "\xed\xa0\x80"}', "no Unicode"),
        (b'{"flow": "A->B", "topic": "t", "partition": 99999999999}', "out of range"),
        (b'{"flow": "A->B", "topic": "t", "partition": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b'{"flow": "A->B", "topic": "' + b"t" * 2_000 + b'"}', "2,000 characters"),
        (b'{"flow": NaN}', "is not a name"),
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"A->B"', "not a JSON object"),
    ],
)
async def test_a_body_that_means_nothing_is_400(body: bytes, says: str, caplog: pytest.LogCaptureFixture) -> None:
    """The system never hears of it: what is no Unicode would break whoever shows the event."""
    async with site() as there:
        answer = await send(there.port, act(body, _TOKEN))
        assert (status(answer), there.system.commands) == (400, [])
        assert says in json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
    assert not caplog.records


async def test_a_pair_of_surrogates_is_a_character(there: Site) -> None:
    """JSON writes it so."""
    assert status(await send(there.port, act(b'{"flow": "A->B", "topic": "\\ud83d\\ude00"}', _TOKEN))) == 200
    assert there.system.commands == [("pause", "A->B", "\U0001f600", None)]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/audit?since_ms=99999999999999999999999",
        "/api/v1/audit?since_ms=" + "9" * 5000,
        "/api/v1/audit?since_ms=253402300800000",
        "/api/v1/audit?limit=99999999999",
        "/api/v1/audit?limit=0",
        "/api/v1/audit?limit=-1",
        "/api/v1/audit?limit=%D9%A3",
        "/api/v1/audit?limit=%C2%B2",
        "/api/v1/audit?cluster=\udcff",
        "/api/v1/topics?limit=" + "1" * 20,
    ],
)
async def test_a_question_that_is_none_is_400(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Before anybody is asked."""
    async with site() as there:
        data = request("GET", "/x").replace(b"/x", path.encode("utf-8", "surrogateescape"))
        answer = await send(there.port, data)
        assert (status(answer), there.system.wanted) == (400, None)
    assert not caplog.records


async def test_an_event_s_number_may_be_any_text(caplog: pytest.LogCaptureFixture) -> None:
    """``Last-Event-ID`` is what a stranger sends."""
    async with site() as there:
        for number in ("9" * 5000, "\u00b2", "x"):
            async with there.session.get(there.url + "/api/v1/stream", headers={"Last-Event-ID": number}) as answer:
                assert (answer.status, (await answer.content.readline())[:3]) == (200, b"id:")
    assert not tracebacks(caplog)


async def test_strangers_ask_kafka_once() -> None:
    """Where nobody has a token, however often they come and whatever they ask for."""
    async with site(token=None) as there:
        for number in range(1, 20):
            assert (await there.get(f"/api/v1/audit?flow=A->{number}&limit={number}"))[0] == 200
            assert (await there.get(f"/api/v1/groups?flow=A->{number}"))[0] == 200
        assert (there.system.audits, there.system.groups_asked) == (1, 1)


async def test_half_a_head_is_not_waited_for() -> None:
    """Nor nothing at all, nor a second head that does not end."""
    async with site(bounds=replace(BOUNDS, head_s=0.1)) as there:
        for parts in (
            (b"GET / HTTP/1.1\r\nHost:",),
            (b"",),
            (b"G", b"E", b"T", b" ", b"/", b" "),
            (request("GET", "/healthz", close=False), b"GET / HTT"),
        ):
            began_s = time.monotonic()
            await send(there.port, *parts, pause_s=0.03)
            assert time.monotonic() - began_s < 1.0


async def test_half_a_body_is_not_waited_for() -> None:
    """It is 408, and nothing is done."""
    async with site(bounds=replace(BOUNDS, body_s=0.1, linger_s=0.05)) as there:
        assert status(await send(there.port, act(PAUSE, _TOKEN)[:-1])) == 408
        assert there.system.commands == []


async def test_connections_are_bounded_and_health_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has most of them loses the one that has waited longest."""
    async with site(bounds=replace(BOUNDS, connections=20)) as there:
        waiting = [await asyncio.open_connection("127.0.0.1", there.port) for _ in range(60)]
        for _, writer in waiting:
            writer.write(b"GET / HTTP/1.1\r\n")
        for _ in range(5):
            assert status(await send(there.port, request("GET", "/healthz"))) == 200
        ended = [await _is_ended(reader) for reader, _ in waiting]
        assert sum(ended) >= 40
        assert not any(ended[-10:])
        for _, writer in waiting:
            writer.transport.abort()
    assert not caplog.records


def test_who_has_most_makes_room() -> None:
    """What is not being answered first, the oldest of it; an address with few loses nothing."""
    guests: dict[str, tuple[str, bool, float]] = {
        "few": ("10.0.0.1", False, 0),
        "busy": ("10.0.0.2", True, 1),
        "older": ("10.0.0.2", False, 2),
        "newer": ("10.0.0.2", False, 3),
    }
    gone = []
    while guests:
        gone.append(victim(guests))
        del guests[gone[-1]]
    assert gone == ["older", "newer", "few", "busy"]


async def test_streams_that_nobody_reads_block_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """There is always room for one more page; the oldest of whoever has most goes, and comes back by itself."""
    async with site(bounds=replace(BOUNDS, streams=5)) as there:
        idle = [await asyncio.open_connection("127.0.0.1", there.port) for _ in range(8)]
        for _, writer in idle:
            writer.write(request("GET", "/api/v1/stream", close=False))
            await asyncio.sleep(0.01)
        async with there.session.get(there.url + "/api/v1/stream") as answer:
            assert (answer.status, await answer.content.readline()) == (200, b"id: 1\n")
        for _, writer in idle:
            writer.transport.abort()
    assert not caplog.records


async def test_an_answer_that_nobody_takes_is_given_up() -> None:
    """Its connection ends; no handler waits for ever."""
    async with site(bounds=replace(BOUNDS, write_s=0.1)) as there:
        there.system.seen = _large(there)
        reader, writer = await asyncio.open_connection("127.0.0.1", there.port, limit=1)
        for _ in range(300):
            writer.write(request("GET", "/api/v1/topics", close=False))
        await wait_until_async(lambda: _is_broken(writer), 5.0, "the connection ends")
        del reader


def _large(there: Site) -> Any:
    topic = there.system.seen.topics[0]
    topics = tuple(replace(topic, topic=f"{number}-{'x' * 200}") for number in range(2_000))
    return replace(there.system.seen, topics=topics)


async def _is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(0.01):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def _is_broken(writer: asyncio.StreamWriter) -> bool:
    writer.write(b"\r\n")
    try:
        async with asyncio.timeout(0.01):
            await writer.drain()
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return False
