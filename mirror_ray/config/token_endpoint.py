"""Checks the URL of a token endpoint, which the client secret is sent to."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

TOKEN_ENDPOINT_KEY: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a key
ALLOW_HTTP_KEY: Final = "sasl.oauthbearer.token.endpoint.allow.http"


def token_endpoint_problem(url: str, *, allow_http: bool) -> str | None:
    """The mistake in the URL, as the end of a sentence that begins with its key; None: there is none.

    Plain HTTP is accepted within this machine, and to other machines if the configuration allows it.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in {"https", "http"} or not host:
        return "is not an HTTP URL: write https://HOST/PATH"
    if parts.username is not None or parts.password is not None:
        return "holds a user or a password: client id and secret have keys of their own"
    if parts.scheme == "https" or allow_http or _is_this_machine(host):
        return None
    return (
        f"is plain HTTP: the client's secret could be read on its way to {host}. "
        f"Write https://, or {ALLOW_HTTP_KEY} = true if that way is safe"
    )


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
