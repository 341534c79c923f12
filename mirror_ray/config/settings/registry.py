"""Settings of a cluster's schema registry: where it is, and how to get in."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from mirror_ray.config.base import Settings, split_commas
from mirror_ray.config.numbers import Milliseconds, RequestsPerSecond
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings.security import SslSettings

_FORM: Final = "write https://HOST:PORT, with a path if the registry has one"


def _url(text: str) -> str:
    # Of a text that is none nothing is cited: it may hold a password.
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"it is no URL: {_FORM}") from None
    if "@" in text:
        raise ValueError(
            "it holds a user or a password: write them apart (schema.registry.basic.auth.user.info; registry.user_info)"
            ", or say that they are in it (schema.registry.basic.auth.credentials.source = URL)"
        )
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError(f"it is no HTTP URL: {_FORM}")
    if parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ValueError(f"that of {host} has blanks, a query or a fragment: {_FORM}")
    return text


#: ``http`` or ``https``, a host and perhaps a path; no user and no password.
RegistryUrl = Annotated[str, AfterValidator(_url)]


class RegistrySettings(Settings):
    """One schema registry."""

    #: Of one registry: another one is asked where one does not answer.
    urls: Annotated[tuple[RegistryUrl, ...], BeforeValidator(split_commas, json_schema_input_type=str | list[str])]
    #: Basic authentication: ``USER:PASSWORD``.
    user_info: Secret | None = None
    #: A bearer token that stays the same.
    bearer_token: Secret | None = None
    #: Bearer tokens by the OIDC client credentials grant.
    token_endpoint_url: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    #: Whether credentials may be sent over plain HTTP; within this machine they always may.
    allow_http: bool = False
    ssl: SslSettings = SslSettings()
    request_timeout_ms: Milliseconds = 10_000
    #: 0: no limit.
    requests_per_second: RequestsPerSecond = 0
