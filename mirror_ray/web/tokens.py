"""Whose token a request carries."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_ray.config.gateway import GatewaySettings, token_text, unusable_token

_SCHEME: Final = "Bearer "


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Who has a token."""

    #: Empty: whoever has ``gateway.token``.
    user: str
    acts: bool


class TokenTable:
    """The tokens, as they were when they were read last; the texts themselves are not kept."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._digests: dict[TokenHolder, bytes] = {}
        self._reported: tuple[str, ...] = ()

    def renew(self) -> list[str]:
        """Read all tokens again; what is wrong with them, if it was not so before.

        One that can't be used now is not let in by, and the one before it goes on to be.
        """
        problems: list[str] = []
        # Another thread may be looking somebody up.
        digests = dict(self._digests)
        for key, holder, found in self._read():
            if isinstance(found, LookupError):
                problems.append(f"{key}: {found.args[0]}; the one before it still holds")
            elif (why := unusable_token(found)) is not None:
                problems.append(f"{key}: {why}; the one before it still holds")
            else:
                digests[holder] = _digest(found.encode())
        self._digests = digests
        reported, self._reported = self._reported, tuple(problems)
        return [problem for problem in problems if problem not in reported]

    def _read(self) -> Iterator[tuple[str, TokenHolder, str | LookupError]]:
        given = self._settings
        secrets = [
            (f"gateway.tokens: {named.user}'s token", named.user, named.may, named.token) for named in given.tokens
        ]
        if given.token is not None:
            secrets.insert(0, ("gateway.token", "", "act", given.token))
        for key, user, may, secret in secrets:
            holder = TokenHolder(user, may == "act")
            try:
                yield key, holder, token_text(secret)
            except LookupError as error:
                yield key, holder, error

    def holder(self, authorization: Sequence[str]) -> TokenHolder | None:
        """Whose token the ``Authorization`` headers of a request carry; None: nobody's.

        Exactly one, of the scheme ``Bearer``. Takes as long for a wrong token as for a right one.
        """
        given = authorization[0] if len(authorization) == 1 else ""
        # Bytes that are no UTF-8 are kept by aiohttp as surrogates.
        digest = _digest(given.removeprefix(_SCHEME).encode("utf-8", "surrogateescape"))
        found = [holder for holder, known in self._digests.items() if hmac.compare_digest(known, digest)]
        return found[0] if found and given.startswith(_SCHEME) else None

    @property
    def has_holders(self) -> bool:
        """Whether anybody has a token."""
        return bool(self._digests)

    @property
    def lets_act(self) -> bool:
        """Whether anybody may act."""
        return any(holder.acts for holder in self._digests)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
