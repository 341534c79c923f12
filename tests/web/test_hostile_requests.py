"""Whatever bytes come: never a 500, never a traceback, and never an act without a token."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from dataclasses import replace
from typing import Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mirror_ray.web.client_limits import BOUNDS
from tests.web.fakes import TOKEN, site
from tests.web.raw import send, status

_METHODS: Final = (b"GET", b"POST", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE", b"get", b"PRI", b"CONNECT")
_PATHS: Final = (
    *(
        b"/",
        b"/healthz",
        b"/readyz",
        b"/metrics",
        b"/assets/main.js",
        b"/assets/../server.py",
        b"//",
        b"*",
        b"http://x/",
    ),
    *(b"/api/v1/" + name for name in (b"status", b"topics", b"partitions", b"events", b"gaps", b"groups", b"schemas")),
    *(b"/api/v1/" + name for name in (b"audit", b"history", b"pause", b"resume", b"scale", b"set", b"nothing")),
)
_VALUES: Final = (b"", b"0", b"-1", b"9" * 30, b"%ff", b"%ED%A0%80", b"\xff", b"%00", b"A-%3EB", b"%D9%A3", b"a=b&c")
_NAMES: Final = (
    *(b"flow", b"topic", b"limit", b"since_ms", b"kind", b"cluster", b"%ff", b"search", b"problems", b"offset"),
)
_HEADERS: Final = (
    *(b"Content-Type: application/json", b"Content-Type: text/plain", b"Content-Encoding: gzip"),
    *(b"Authorization: Bearer", b"Authorization: Bearer \xff\xfe", b"Authorization: Basic eDp5", b"Authorization:"),
    *(b"Host: evil", b"Transfer-Encoding: chunked", b"Content-Length: -1", b"Upgrade: websocket", b"Last-Event-ID: x"),
    *(b"Accept-Encoding: gzip", b"Connection: upgrade", b"Expect: 100-continue", b"Cookie: \xff"),
    *(b"X: " + b"a" * 9_000, b"\x00: a", b": a"),
)
_RIGHT: Final = b"Authorization: Bearer " + TOKEN.encode()

_scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=8))
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_acts = st.fixed_dictionaries(
    {},
    optional={
        name: st.one_of(_json, st.sampled_from(("A->B", "\ud800", "a" * 2_000, 2**31, -7, 1e400)))
        for name in ("flow", "topic", "partition", "replicators", "changes", "dry_run")
    },
)
_bodies = st.one_of(
    _acts.map(lambda act: json.dumps(act).encode()),
    st.binary(max_size=200),
    st.sampled_from((b"[" * 60_000, b'{"flow":' * 9_000, b'{"flow": "\xff"}', b"9" * 5_000, b"a" * 70_000)),
)
_queries = st.lists(st.tuples(st.sampled_from(_NAMES), st.sampled_from(_VALUES)), max_size=3).map(
    lambda pairs: b"?" + b"&".join(b"%s=%s" % pair for pair in pairs) if pairs else b""
)


@st.composite
def _requests(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A request that is half right, and whether it has the token."""
    method, path = draw(st.sampled_from(_METHODS)), draw(st.sampled_from(_PATHS)) + draw(_queries)
    body, holds = draw(_bodies), draw(st.booleans())
    headers = [b"Host: 127.0.0.1", b"Connection: close", *draw(st.lists(st.sampled_from(_HEADERS), max_size=3))]
    headers += [_RIGHT, b"Content-Type: application/json"] if holds else []
    headers += [b"Content-Length: %d" % len(body)] if draw(st.booleans()) else []
    data = b"\r\n".join([method + b" " + path + b" HTTP/1.1", *headers, b"", body])
    cut = draw(st.integers(0, len(data)))
    return draw(st.sampled_from((data, data, data, data[:cut], data[:cut] + b"\x00" + data[cut:]))), holds


@given(requests=st.lists(_requests() | st.tuples(st.binary(max_size=300), st.just(False)), min_size=40, max_size=60))
@settings(
    max_examples=int(os.environ.get("HOSTILE_REQUESTS", "250")) // 50,
    deadline=None,
    derandomize="HOSTILE_REQUESTS" not in os.environ,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_anything(requests: list[tuple[bytes, bool]]) -> None:
    """A longer run, with others each time: ``make fuzz-web``."""
    logged = _LoggedErrors()
    logging.getLogger().addHandler(logged)
    try:
        asyncio.run(_try(requests))
    finally:
        logging.getLogger().removeHandler(logged)
    assert logged.wrong == []


class _LoggedErrors(logging.Handler):
    """Keeps what is logged with a traceback, or as an error."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.wrong.append(self.format(record))


async def _try(requests: list[tuple[bytes, bool]]) -> None:
    quick = replace(BOUNDS, head_s=0.05, body_s=0.05, linger_s=0.01, write_s=0.5)
    async with site(bounds=quick) as there:

        async def one(sent: bytes, holds: bool) -> None:
            before = len(there.system.commands)
            code = status(await send(there.port, sent, wait_s=3.0))
            # 503: nobody has asked for a snapshot yet.
            assert code < 500 or code == 503, (sent, code)
            assert holds or len(there.system.commands) == before, sent

        for sent, holds in requests:
            await one(sent, holds)
        assert (await there.get("/healthz"))[0] == 200
        for act in there.system.commands:
            json.dumps(act, ensure_ascii=False).encode()
