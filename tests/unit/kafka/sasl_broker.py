"""The broker's side of SaslHandshake and SaslAuthenticate, as an object."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from mirror_ray.kafka import sasl
from mirror_ray.kafka.framing import SASL_HANDSHAKE_KEY


class SaslBroker:
    """Answers SaslHandshake well and SaslAuthenticate as it is told to."""

    def __init__(
        self,
        answer: Callable[[bytes], bytes],
        error_code: int = 0,
        error_message: str | None = None,
        handshake_code: int = 0,
    ) -> None:
        self._answer = answer
        self._error_code, self._error_message = error_code, error_message
        self._handshake_code = handshake_code
        self.messages: list[bytes] = []

    async def request(self, entity: Any) -> Any:
        """As a connection's."""
        if entity.__api_key__ == SASL_HANDSHAKE_KEY:
            return SimpleNamespace(error_code=self._handshake_code, mechanisms=("PLAIN",))
        self.messages.append(entity.auth_bytes)
        if self._error_code:
            return SimpleNamespace(error_code=self._error_code, error_message=self._error_message)
        return SimpleNamespace(error_code=0, auth_bytes=self._answer(entity.auth_bytes))


async def authenticate(broker: SaslBroker, mechanism: sasl.Mechanism) -> float | None:
    """As a connection does it."""
    return await sasl.authenticate(broker.request, mechanism, await mechanism.begin(), 0)
