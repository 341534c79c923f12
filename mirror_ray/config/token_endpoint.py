"""Checks the URL of a token endpoint, which the client secret is sent to."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

TOKEN_ENDPOINT_KEY: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a key
ALLOW_HTTP_KEY: Final = "sasl.oauthbearer.token.endpoint.allow.http"
#: Of a schema registry, whose credentials may be tokens, too.
REGISTRY_ALLOW_HTTP_KEY: Final = "schema.registry.allow.http"


def token_endpoint_problem(url: str, *, allow_http: bool, allow_key: str = ALLOW_HTTP_KEY) -> str | None:
    """The mistake in the URL, as the end of a sentence that begins with its key; None: there is none.

    Plain HTTP is accepted within this machine, and to other machines if the configuration allows it by ``allow_key``.
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
    if parts.scheme == "https" or allow_http or is_this_machine(host):
        return None
    return (
        f"is plain HTTP: the client's secret could be read on its way to {host}. "
        f"Write https://, or {allow_key} = true if that way is safe"
    )


def is_this_machine(host: str) -> bool:
    """Whether a URL's host is this machine, so that nobody else sees what is sent there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
