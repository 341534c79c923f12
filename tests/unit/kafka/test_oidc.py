"""A token endpoint that redirects, lies, babbles or says nothing: a named error, and the secret goes nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from mirror_ray.config.secrets import Secret
from mirror_ray.kafka import oauth
from mirror_ray.kafka.oauth import NoTokenError, OAuthBearer, OidcTokens, read_token
from mirror_ray.model.errors import ClusterUnreachableError

SECRET = "CLIENTSECRET"
GOOD = b'{"access_token": "header.claims.signature", "expires_in": 300}'
#: What the endpoint of the same path answers: status, headers, body.
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/good": (200, {}, GOOD),
    "/moved": (302, {"Location": "/stolen"}, b""),
    "/kept": (307, {"Location": "/stolen"}, b""),
    "/refused": (401, {}, json.dumps({"error": "invalid_client", "error_description": SECRET}).encode()),
    "/odd": (500, {}, SECRET.encode()),
    "/endless": (200, {}, b"[" * (2 << 20)),
    "/packed": (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b\x08"),
}


class Endpoint(BaseHTTPRequestHandler):
    """Answers by the path, and keeps what it was asked for."""

    asked: list[tuple[str, str | None]]

    def do_POST(self) -> None:
        """As ANSWERS has it."""
        self.asked.append((self.path, self.headers.get("Authorization")))
        status, headers, body = ANSWERS.get(self.path, (200, {}, GOOD))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """A client that follows a redirect asks so."""
        self.do_POST()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Where it answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Endpoint.asked = []
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def tokens(url: str, **more: Any) -> OidcTokens:
    """Of a client with a secret."""
    return OidcTokens(url=url, client_id="c", client_secret=Secret(SECRET), **more)


def test_an_answer_of_an_endpoint_is_taken(endpoint: str) -> None:
    """Token and lifetime, for client id and secret."""
    assert tokens(f"{endpoint}/good").fetch() == ("header.claims.signature", 300)
    assert Endpoint.asked[-1] == ("/good", "Basic YzpDTElFTlRTRUNSRVQ=")


@pytest.mark.parametrize("path", ["/moved", "/kept"])
def test_the_secret_follows_no_redirect(endpoint: str, path: str) -> None:
    """Wherever the answer points to."""
    with pytest.raises(NoTokenError, match="which is not followed"):
        tokens(endpoint + path).fetch()
    assert "/stolen" not in {asked for asked, _ in Endpoint.asked}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/refused", r"status 401 \(invalid_client\)"),
        ("/odd", "status 500"),
        ("/endless", "more than 1048576 bytes"),
        ("/packed", "no JSON object"),
    ],
)
async def test_what_is_no_token_is_named_without_a_secret(endpoint: str, path: str, said: str) -> None:
    """With cluster and key, in a running event loop, too."""
    bearer = OAuthBearer(cluster="A", principal="c", tokens=tokens(f"{endpoint}{path}?secret={SECRET}"))
    ANSWERS[f"{path}?secret={SECRET}"] = ANSWERS[path]
    with pytest.raises(ClusterUnreachableError, match=rf"A: no token for c: .*{said}.*A\.sasl\.oauth") as refused:
        await bearer.begin()
    with pytest.raises(ClusterUnreachableError):
        bearer.fetch()
    assert SECRET not in str(refused.value) + repr(bearer)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "not an HTTP URL"),
        ("http://[::1", "is no URL"),
        ("http://id.example:x/", "is no URL"),
        ("http://id.example/token", "plain HTTP"),
        (f"https://u:{SECRET}@id.example/", "holds a user or a password"),
        ("https://127.0.0.1:1/", "can't be reached"),
    ],
)
async def test_a_url_that_can_not_be_asked_is_named(url: str, said: str) -> None:
    """Before anything is sent to it."""
    bearer = OAuthBearer(cluster="A", principal="c", tokens=tokens(url))
    with pytest.raises(ClusterUnreachableError, match=rf"{said}.*token\.endpoint\.url") as refused:
        await bearer.begin()
    assert SECRET not in str(refused.value)


async def test_an_endpoint_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time counts for all of the answer, not from byte to byte."""
    monkeypatch.setattr(oauth, "_TIMEOUT_S", 0.2)

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _byte in range(100):
            writer.write(b"[")
            await asyncio.sleep(0.02)
        writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NoTokenError, match=r"did not answer within 0\.2 s"):
            await asyncio.to_thread(tokens(f"http://127.0.0.1:{port}/").fetch)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'"x"',
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe\x00",
        b'{"access_token": null}',
        b'{"access_token": ""}',
        b'{"access_token": 7}',
        b'{"access_token": ["t"]}',
        b'{"access_token": "t\\u0001auth=x"}',
        b'{"access_token": "t\\n"}',
        b'{"access_token": "\\ud800"}',
        *(b'{"access_token": "t", "expires_in": %s}' % odd for odd in (b"null", b"NaN", b"-1", b"0", b"true", b"[]")),
        *(b'{"access_token": "t", "expires_in": %s}' % odd for odd in (b"-Infinity", b'"soon"', b"{}", b"9" * 5000)),
    ],
)
def test_every_odd_answer_is_named(body: bytes) -> None:
    """And none of it becomes a token."""
    with pytest.raises(NoTokenError):
        read_token(body)


@pytest.mark.parametrize(("written", "seconds"), [(b'"3599"', 3599), (b"1e300", 366 * 86_400), (b"0.5", 0.5)])
def test_lifetimes_are_read_as_they_are_written(written: bytes, seconds: float) -> None:
    """Also as a text, and not beyond a year."""
    assert read_token(b'{"access_token": "t", "expires_in": %s}' % written) == ("t", seconds)
