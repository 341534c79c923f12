"""Security of a cluster on this machine: the brokers' properties, and those of clients for Java and for librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Self

from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, CertificateAuthority, StoreType

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

#: The user by which brokers authenticate to each other.
BROKER_USER = "broker"

_USERS = MappingProxyType({BROKER_USER: "broker-secret", "admin": "admin-secret", "alice": "alice-secret"})
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSecurity:
    """How clients of a listener authenticate. Controllers use PLAINTEXT among themselves, on loopback."""

    protocol: SecurityProtocol = "PLAINTEXT"
    mechanism: SaslMechanism | None = None
    #: Passwords by name; one is the brokers' own, ``broker``.
    users: Mapping[str, str] = field(default_factory=lambda: _USERS, repr=False)
    #: Clients of ``SSL`` must show a certificate; a user's is ``CN=user``.
    client_auth: bool = False
    #: Use the StandardAuthorizer: ``super_users`` may do everything, others what ACLs allow.
    authorizer: bool = False
    super_users: tuple[str, ...] = ("admin",)
    #: Sessions end after so long (KIP-368); None is never.
    session_ms: int | None = None

    @classmethod
    def scram_over_tls(cls) -> Self:
        """SASL_SSL with SCRAM-SHA-512."""
        return cls(protocol="SASL_SSL", mechanism="SCRAM-SHA-512")

    @classmethod
    def plain(cls, *, authorizer: bool = False) -> Self:
        """SASL_PLAINTEXT with PLAIN."""
        return cls(protocol="SASL_PLAINTEXT", mechanism="PLAIN", authorizer=authorizer)

    @classmethod
    def oauth(cls) -> Self:
        """SASL_PLAINTEXT with OAUTHBEARER and Kafka's unsecured tokens."""
        return cls(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER")

    @classmethod
    def mutual_tls(cls) -> Self:
        """SSL with client certificates."""
        return cls(protocol="SSL", client_auth=True)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in {"SSL", "SASL_SSL"}

    def listener_properties(self, listener: str, authority: CertificateAuthority | None) -> dict[str, str]:
        """A broker's properties for a listener of that name. ``authority`` is needed where TLS is used."""
        prefix = f"listener.name.{listener.lower()}."
        properties: dict[str, str] = {}
        if self.mechanism is not None:
            properties |= {
                f"{prefix}sasl.enabled.mechanisms": self.mechanism,
                f"{prefix}{self.mechanism.lower()}.sasl.jaas.config": self._jaas(BROKER_USER, server=True),
            }
        if self.session_ms is not None and self.mechanism is not None:
            properties[f"{prefix}{self.mechanism.lower()}.connections.max.reauth.ms"] = str(self.session_ms)
        if authority is not None and self.uses_tls:
            properties |= {
                f"{prefix}ssl.keystore.type": "PEM",
                f"{prefix}ssl.keystore.location": str(authority.keystore(BROKER_USER, "PEM")),
                f"{prefix}ssl.truststore.type": "PEM",
                f"{prefix}ssl.truststore.location": str(authority.truststore("PEM")),
                f"{prefix}ssl.client.auth": "required" if self.client_auth else "none",
            }
        return properties

    def super_principals(self) -> list[str]:
        """The principals of the super users and of the brokers."""
        prefix = "CN=" if self.protocol == "SSL" else ""
        return [f"{prefix}{user}" for user in (BROKER_USER, *self.super_users)]

    def scram_credentials(self) -> list[str]:
        """The users in the form of ``kafka-storage format --add-scram``; none where the mechanism is not SCRAM."""
        if self.mechanism not in {"SCRAM-SHA-256", "SCRAM-SHA-512"}:
            return []
        return [f"{self.mechanism}=[name={user},password={password}]" for user, password in self.users.items()]

    def client_properties(
        self, authority: CertificateAuthority | None, user: str, store_type: StoreType
    ) -> dict[str, str]:
        """A client's properties, as Kafka's Java clients and ``mm2.properties`` have them."""
        properties: dict[str, str] = {"security.protocol": self.protocol}
        if self.mechanism is not None:
            properties |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas(user, server=False)}
        if authority is not None:
            stores = {"truststore": authority.truststore(store_type)}
            if self.client_auth:
                stores["keystore"] = authority.keystore(user, store_type)
            for name, path in stores.items():
                properties |= {f"ssl.{name}.location": str(path), f"ssl.{name}.type": store_type}
            if store_type != "PEM":
                names = [*stores, "key"] if self.client_auth else stores
                properties |= {f"ssl.{name}.password": STORE_PASSWORD for name in names}
        return properties

    def confluent_config(self, authority: CertificateAuthority | None, user: str) -> dict[str, str]:
        """A client's configuration for librdkafka."""
        config: dict[str, str] = {"security.protocol": self.protocol}
        if self.mechanism == "OAUTHBEARER":
            config |= {
                "sasl.mechanism": self.mechanism,
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user}",
            }
        elif self.mechanism is not None:
            config |= {"sasl.mechanism": self.mechanism, "sasl.username": user, "sasl.password": self.users[user]}
        if authority is not None:
            config["ssl.ca.location"] = str(authority.truststore("PEM"))
            if self.client_auth:
                pem = str(authority.keystore(user, "PEM"))
                config |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
        return config

    def _jaas(self, user: str, *, server: bool) -> str:
        assert self.mechanism is not None  # noqa: S101 - asked for only where SASL is on
        options = {"username": user, "password": self.users[user]}
        if self.mechanism == "OAUTHBEARER":
            options = {"unsecuredLoginStringClaim_sub": user}
        elif self.mechanism == "PLAIN" and server:
            options |= {f"user_{name}": password for name, password in self.users.items()}
        quoted = " ".join(f'{key}="{value}"' for key, value in options.items())
        return f"{_MODULES[self.mechanism]} required {quoted};"
