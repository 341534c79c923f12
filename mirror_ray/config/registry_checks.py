"""Checks of a cluster's schema registry beyond the types of its fields, for both forms of file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import RegistrySettings
from mirror_ray.config.token_endpoint import REGISTRY_ALLOW_HTTP_KEY, is_this_machine, token_endpoint_problem

_BASIC: Final = "registry.user_info"
_TOKEN: Final = "registry.bearer_token"  # noqa: S105 - the name of a field
_NEEDED: Final = {
    "token_endpoint_url": "a token endpoint's URL",
    "client_id": "a client id",
    "client_secret": "a client secret",
}


def check_registry(
    registry: RegistrySettings | None, field_name: Callable[[str], str], environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield a sentence for each setting that can't be used.

    ``field_name``: from a field such as ``registry.urls`` to the user's key. ``environ``: environment variables that
    secrets may be in, those of this process by default.
    """
    if registry is None:
        return
    if not registry.urls:
        yield f"{field_name('registry.urls')}: empty; write https://HOST:PORT"
    grant = {name for name in (*_NEEDED, "scope") if getattr(registry, name) is not None}
    is_bearer = registry.bearer_token is not None or bool(grant)
    if registry.user_info is not None and is_bearer:
        yield f"{field_name(_BASIC)}: basic authentication beside a bearer token: leave one of the two out"
    if registry.bearer_token is not None and grant:
        yield f"{field_name(_TOKEN)}: a token beside a client that fetches tokens: leave one of the two out"
    missing = [what for name, what in _NEEDED.items() if name not in grant]
    if grant and missing:
        first = next(name for name in (*_NEEDED, "scope") if name in grant)
        yield f"{field_name(f'registry.{first}')}: to fetch tokens {' and '.join(missing)} must be set as well"
    if registry.token_endpoint_url is not None and (
        problem := token_endpoint_problem(
            registry.token_endpoint_url, allow_http=registry.allow_http, allow_key=REGISTRY_ALLOW_HTTP_KEY
        )
    ):
        yield f"{field_name('registry.token_endpoint_url')}: it {problem}"
    if (registry.user_info is not None or is_bearer) and not registry.allow_http:
        yield from _check_ways(registry, field_name)
    yield from _check_secrets(registry, field_name, environ)


def _check_ways(registry: RegistrySettings, field_name: Callable[[str], str]) -> Iterator[str]:
    for url in registry.urls:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_this_machine(host):
            yield (
                f"{field_name('registry.urls')}: it is plain HTTP: credentials could be read on their way to {host}. "
                f"Write https://, or {REGISTRY_ALLOW_HTTP_KEY} = true if that way is safe"
            )


def _check_secrets(
    registry: RegistrySettings, field_name: Callable[[str], str], environ: Mapping[str, str] | None
) -> Iterator[str]:
    for field, secret, check in (
        (_BASIC, registry.user_info, _unusable_user_info),
        (_TOKEN, registry.bearer_token, _unusable_token),
    ):
        try:
            why = check(secret, environ) if secret is not None else None
        except LookupError as error:
            why = str(error.args[0])
        if why is not None:
            yield f"{field_name(field)}: {why}"


def _unusable_user_info(secret: Secret, environ: Mapping[str, str] | None) -> str | None:
    user, colon, _ = secret.reveal(environ).partition(":")
    return None if user and colon else "it is not written USER:PASSWORD"


def _unusable_token(secret: Secret, environ: Mapping[str, str] | None) -> str | None:
    text = secret.reveal(environ)
    if text and all(" " < character <= "~" for character in text):
        return None
    return "it is empty, or has blanks, line ends or characters other than ASCII's, which no HTTP header carries"
