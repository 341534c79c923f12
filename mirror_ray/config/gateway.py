"""Settings of the gateway: its address, who may read and who may act, and its certificate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from mirror_ray.config.base import Settings
from mirror_ray.config.secrets import Secret
from mirror_ray.config.server_tls import server_context

#: The gateway's port, if the configuration has none and it is free.
GATEWAY_PORT: Final = 8484
#: Characters of a token: enough that nobody can guess it.
SHORTEST_TOKEN: Final = 16
_LONGEST_TOKEN: Final = 1024
_HOST: Final = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]{0,251}[0-9A-Za-z.])?|[0-9A-Fa-f:.]{2,45}")


class GatewayToken(Settings):
    """The token of one user."""

    #: Shown in the audit log and in events, with the changes that are made with the token.
    user: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._@+-]{0,63}$")]
    token: Secret
    #: ``act``: read, and pause, resume, scale and change. ``read``: read only.
    may: Literal["read", "act"] = "read"


class GatewayTls(Settings):
    """PEM files, read again when they change."""

    #: The gateway's certificate, then those between it and its authority.
    certificate: str
    #: Its private key, without a passphrase.
    key: str


class GatewaySettings(Settings):
    """The gateway: the web UI, its JSON, and what Prometheus scrapes."""

    enabled: bool = True
    #: The address to listen on. 0.0.0.0 for a Prometheus or a browser on another machine.
    host: str = "127.0.0.1"
    #: None: 8484, or any other port if that is taken. A configured port must be free.
    port: int | None = Field(default=None, ge=0, le=65535)
    #: It allows to pause, resume, scale and change in the web UI. None, and none of ``tokens`` may act: nobody may.
    token: Secret | None = None
    #: Further tokens, one for each user.
    tokens: tuple[GatewayToken, ...] = ()
    #: ``open``: everybody who reaches the gateway may read. ``token``: reading needs a token, except for ``/healthz``,
    #: ``/readyz`` and the web UI's own files.
    reading: Literal["open", "token"] = "open"
    #: None: plain HTTP.
    tls: GatewayTls | None = None
    #: How many partitions have series of their own; of the others only their topics have.
    metrics_partitions: int = Field(default=2_000, ge=0)


def unusable_token(text: str) -> str | None:
    """Why a text can't be a token; the sentence shows nothing of it. None: it can."""
    if not text.strip():
        return "empty: with it everybody could act; write a random text, as openssl rand -hex 32 makes, or leave it out"
    if not all(" " < character <= "~" for character in text):
        return "has blanks, line ends or characters other than ASCII's, which no HTTP header carries unchanged"
    if not SHORTEST_TOKEN <= len(text) <= _LONGEST_TOKEN:
        return (
            f"has {len(text)} characters: a token has {SHORTEST_TOKEN} to {_LONGEST_TOKEN}, "
            "as openssl rand -hex 32 makes them"
        )
    return None


def token_text(secret: Secret, environ: Mapping[str, str] | None = None) -> str:
    """Resolve a token, without the newline at the end of its file; ``environ`` and errors as for ``reveal``."""
    return secret.reveal(environ).removesuffix("\n").removesuffix("\r")


def check_gateway(gateway: GatewaySettings, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a sentence for each setting that the gateway can't use; keys are the same in both forms of file.

    ``environ``: environment variables that tokens may be in, those of this process by default.
    """
    if not _HOST.fullmatch(gateway.host):
        yield f"gateway.host: {gateway.host!r} is neither an IP address nor a host name; 0.0.0.0 is all addresses"
    yield from _check_tokens(gateway, environ)
    if gateway.tls is not None:
        try:
            server_context(gateway.tls.certificate, gateway.tls.key)
        except ValueError as error:
            yield f"gateway.tls.{error}"


def _check_tokens(gateway: GatewaySettings, environ: Mapping[str, str] | None) -> Iterator[str]:
    given = [("gateway.token", "", gateway.token)] if gateway.token is not None else []
    given += [(f"gateway.tokens: {token.user}'s token", token.user, token.token) for token in gateway.tokens]
    users: dict[str, str] = {}
    for key, user, secret in given:
        try:
            text = token_text(secret, environ)
        except LookupError as error:
            yield f"{key}: {error.args[0]}"
            continue
        if (why := unusable_token(text)) is not None:
            yield f"{key}: {why}"
        elif text in users:
            yield f"{key}: is the token of {users[text] or 'gateway.token'} as well; give each a token of its own"
        users.setdefault(text, user)
    names = [token.user for token in gateway.tokens]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        yield f"gateway.tokens: {twice} is given twice; to change a token without a stop, change what its file holds"
    if gateway.reading == "token" and not given:
        yield "gateway.reading: nobody could look, for there is no token: set gateway.token or gateway.tokens"
