"""stub"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from mirror_ray.config.settings import SecuritySettings
from mirror_ray.kafka.sasl import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    alias: str
    ssl_context: ssl.SSLContext | None
    mechanism: Mechanism | None

    @classmethod
    def build(cls, alias: str, settings: SecuritySettings) -> ClientSecurity:
        return cls(alias=alias, ssl_context=None, mechanism=None)

    def explain_tls(self, error: ssl.SSLError) -> str:
        return str(error)
