"""Who gets in at the gateway: tokens that are none, of users, for reading; and how wrong ones are reported."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.config.providers import STANDARD_PROVIDERS
from mirror_ray.config.secrets import Secret
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.client_limits import BOUNDS
from mirror_ray.web.refusal_log import RefusalLog
from tests.web.fakes import ALICE, BOB, TOKEN, USERS, Clock, Site, site, tracebacks
from tests.web.raw import JSON, PAUSE, request, send, status

_TOKEN = TOKEN.encode()


@pytest.mark.parametrize("token", ["", " ", "\n", "short", "tëst-of-a-token-that-is-long"])
@pytest.mark.parametrize("header", [None, b"Bearer ", b"Bearer", b"", b"Bearer \n", b"Bearer short"])
async def test_a_token_that_is_none_lets_nobody_act(token: str, header: bytes | None) -> None:
    """Not at the door either, whatever way it came past the configuration's check."""
    async with site(token=token) as there:
        headers = [JSON] if header is None else [JSON, ("Authorization", header.strip(b"\n"))]
        answer = await send(there.port, request("POST", "/api/v1/pause", PAUSE, headers))
        assert (status(answer), there.system.commands) == (403, [])
        assert b"acts are off" in answer


@pytest.mark.parametrize(
    "header",
    [
        b"Bearer \xff\xfe",
        b"\xff\xfe",
        _TOKEN,
        b"bearer " + _TOKEN,
        b"Bearer  " + _TOKEN,
        b"Basic " + _TOKEN,
        b"Bearer " + _TOKEN + b"x",
        b"Bearer " + _TOKEN[:-1],
        b"Bearer \xed\xa0\x80" + _TOKEN,
    ],
)
async def test_only_the_bearer_s_token_counts(header: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Anything else is 401, whatever bytes it is made of, and writes nothing to the log."""
    async with site() as there:
        answer = await send(there.port, request("POST", "/api/v1/pause", PAUSE, [JSON, ("Authorization", header)]))
        assert (status(answer), there.system.commands) == (401, [])
        assert b"WWW-Authenticate: Bearer" in answer
    assert not tracebacks(caplog)


async def test_two_authorizations_are_none(there: Site) -> None:
    """A proxy's own header beside the user's would decide it otherwise."""
    right = ("Authorization", b"Bearer " + _TOKEN)
    answer = await send(there.port, request("POST", "/api/v1/pause", PAUSE, [JSON, right, right]))
    assert status(answer) in (400, 401)
    assert there.system.commands == []


async def test_each_user_is_named_and_does_what_he_may() -> None:
    """Beside ``gateway.token``, whose acts are the page's."""
    async with site(tokens=USERS) as there:
        assert (await there.act("/api/v1/pause", {"flow": "A->B"}))[0] == 200
        assert (await there.act("/api/v1/pause", {"flow": "A->B"}, ALICE))[0] == 200
        code, refused = await there.act("/api/v1/pause", {"flow": "A->B"}, BOB)
        assert (code, refused["error"]) == (403, "bob may look, and not act: gateway.tokens says what each may")
        assert there.system.operators == ["page 127.0.0.1", "page alice@127.0.0.1"]
        assert len(there.system.commands) == 2


async def test_reading_needs_a_token_where_that_is_asked() -> None:
    """Any token; the page itself and the probes are open, and nothing else is."""
    async with site(tokens=USERS, reading="token") as there:
        bob = {"Authorization": f"Bearer {BOB}"}
        for path in (f"/api/v1/{name}" for name in ("status", "groups", "schemas", "audit", "history", "gaps")):
            assert (await there.get(path))[0] == 401, path
            assert (await there.get(path, headers={"Authorization": "Bearer wrong"}))[0] == 401, path
            assert (await there.get(path, headers=bob))[0] == 200, path
        for path, expected in (("/metrics", 401), ("/api/v1/stream", 401), ("/api/v1/nothing", 401), ("//x", 401)):
            async with there.session.get(there.url + path) as answer:
                assert answer.status == expected, path
        for path in ("/", "/assets/main.js", "/healthz"):
            async with there.session.get(there.url + path) as answer:
                assert answer.status == 200, path
        async with there.session.get(there.url + "/metrics", headers=bob) as answer:
            assert answer.status == 200


async def test_wrong_tokens_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """However many there are; the page that was opened without one is no attack."""
    async with site(reading="token") as there:
        await there.get("/api/v1/status")
        for _ in range(30):
            await there.act("/api/v1/pause", {"flow": "A->B"}, "wrong")
        assert there.access.notices() == []
        there.clock.now_s += BOUNDS.first_report_s
        [notice] = there.access.notices()
        assert notice.text == "refused, for they had no right token: 30 from 127.0.0.1"
        assert (notice.level, notice.refused) == ("warning", True)
        assert there.access.notices() == []
        # Neither Kafka nor the coordinator hears of it by the request itself.
        assert (there.system.asked, there.system.wanted, there.system.commands) == (0, None, [])
    assert not caplog.records


def test_reports_get_rarer_while_it_goes_on() -> None:
    """And come soon again after a calm; of many addresses a few are named."""
    clock = Clock()
    counted = RefusalLog("knocks", clock=clock, first_s=10, last_s=40)
    times: list[float] = []
    for _ in range(200):
        clock.now_s += 1
        for number in range(7):
            counted.count(f"10.0.0.{number}")
        if (text := counted.due()) is not None:
            times.append(clock.now_s - 100)
            assert text.count("from") == 6
            assert text.endswith("from elsewhere")
    assert times == [11, 32, 73, 114, 155, 196]
    clock.now_s += 100
    counted.count("10.0.0.1")
    clock.now_s += 10
    assert counted.due() is not None
    clock.now_s += 200
    counted.count("10.0.0.1")
    assert counted.due() is None
    clock.now_s += 10
    assert counted.due() == "knocks: 1 from 10.0.0.1"


async def test_where_there_are_tokens_strangers_do_not_ask_kafka() -> None:
    """The audit log is read for whoever has one, for each anew, and whatever it may do."""
    async with site(tokens=USERS) as there:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert (await there.get("/api/v1/audit", headers=headers))[0] == 401
        assert there.system.audits == 0
        for _ in range(3):
            code, _answer = await there.get("/api/v1/audit", headers={"Authorization": f"Bearer {BOB}"})
            assert code == 200
        assert there.system.audits == 3


def test_a_token_is_followed_where_its_file_goes(tmp_path: Path) -> None:
    """A new one holds at the next check, the old one no more; one that can't be is reported, and changes nothing."""
    one, other, file = "the-first-token-0123456789", "the-second-token-0123456789", tmp_path / "token"
    file.write_text(f"{one}\n")
    secret = Secret(f"${{dir:{tmp_path}:token}}", STANDARD_PROVIDERS)
    access = GatewayAccess(GatewaySettings(token=secret), clock=Clock())
    assert _lets_in(access, one)
    file.write_text(f"{other}\r\n")
    access.renew()
    assert (_lets_in(access, one), _lets_in(access, other)) == (False, True)
    for spoil in (partial(file.write_text, ""), file.unlink):
        spoil()
        access.renew()
        access.renew()
        assert _lets_in(access, other)
    empty, gone = access.notices()
    assert empty.text.startswith("gateway.token: empty")
    assert f"{file} can't be read" in gone.text


def _lets_in(access: GatewayAccess, token: str) -> bool:
    return access.tokens.holder([f"Bearer {token}"]) is not None
