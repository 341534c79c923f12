"""A token endpoint that gives Kafka's unsecured tokens to a client that shows its secret."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class TokenEndpoint:
    """``secret`` may change at any time; ``given`` counts the tokens that each secret has got."""

    def __init__(self, url: str, subject: str, lifetime_s: int, secret: str) -> None:
        self.url = url
        self.subject = subject
        self.lifetime_s = lifetime_s
        self.secret = secret
        self.given: dict[str, int] = {}
        self.refused = 0

    def answer(self, authorization: str) -> tuple[int, dict[str, object]]:
        """Status and document."""
        secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")[2]
        if secret != self.secret:
            self.refused += 1
            return 401, {"error": "invalid_client"}
        self.given[secret] = self.given.get(secret, 0) + 1
        now = time.time()
        claims = {"sub": self.subject, "iat": now, "exp": now + self.lifetime_s}
        token = ".".join([_base64url({"alg": "none"}), _base64url(claims), ""])
        return 200, {"access_token": token, "expires_in": self.lifetime_s}


@contextmanager
def token_endpoint(subject: str, lifetime_s: int, secret: str) -> Iterator[TokenEndpoint]:
    """Serve on loopback."""
    made: list[TokenEndpoint] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, document = made[0].answer(self.headers.get("Authorization", ""))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.append(TokenEndpoint(f"http://127.0.0.1:{server.server_address[1]}/token", subject, lifetime_s, secret))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield made[0]
    finally:
        server.shutdown()
        server.server_close()


def _base64url(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
