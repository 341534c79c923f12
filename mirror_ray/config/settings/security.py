"""Settings of TLS and SASL."""

from __future__ import annotations

from typing import Literal

from mirror_ray.config.base import Settings
from mirror_ray.config.secrets import Secret

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class SslSettings(Settings):
    """TLS material: PEM text, PEM files, JKS or PKCS12 stores, as Kafka's ``ssl.*`` keys name them."""

    truststore_location: str | None = None
    truststore_type: Literal["PEM", "JKS", "PKCS12"] | None = None
    truststore_password: Secret | None = None
    truststore_certificates: str | None = None
    keystore_location: str | None = None
    keystore_type: Literal["PEM", "JKS", "PKCS12"] | None = None
    keystore_password: Secret | None = None
    keystore_key: Secret | None = None
    keystore_certificate_chain: str | None = None
    key_password: Secret | None = None
    #: ``https`` checks the broker's host name; an empty string turns the check off, as in Kafka.
    endpoint_identification_algorithm: Literal["https", ""] = "https"


class SaslSettings(Settings):
    """SASL credentials, from ``sasl.*`` keys or a ``sasl.jaas.config`` line."""

    mechanism: SaslMechanism
    username: str | None = None
    password: Secret | None = None
    #: OAUTHBEARER, OIDC client credentials grant.
    token_endpoint_url: str | None = None
    #: Whether the client secret may be sent to the token endpoint over plain HTTP; within this machine it always may.
    token_endpoint_allow_http: bool = False
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    #: OAUTHBEARER, Kafka's unsecured tokens for development: the principal (``unsecuredLoginStringClaim_sub``).
    unsecured_subject: str | None = None


class SecuritySettings(Settings):
    """How clients authenticate and encrypt their connections."""

    protocol: SecurityProtocol = "PLAINTEXT"
    ssl: SslSettings = SslSettings()
    sasl: SaslSettings | None = None
