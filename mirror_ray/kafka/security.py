"""A cluster's security settings as raw connections and confluent-kafka need them."""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import MirrorSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.oauth import OAuthBearer, OidcTokens, UnsecuredTokens
from mirror_ray.kafka.sasl import Mechanism, PlainMechanism, ScramMechanism
from mirror_ray.kafka.tls_stores import TlsMaterial, load_tls_material, reveal
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError

_LOG = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """TLS and SASL of a cluster's connections. ``ssl_context`` and ``mechanism`` are None where the protocol has none.

    Build one with :meth:`build`. Secrets are in no repr.
    """

    alias: str
    settings: SecuritySettings
    material: TlsMaterial = field(repr=False)
    ssl_context: ssl.SSLContext | None = field(repr=False)
    mechanism: Mechanism | None

    @classmethod
    def build(cls, alias: str, settings: SecuritySettings) -> ClientSecurity:
        """Read and check everything that the settings of the cluster ``alias`` name.

        Raises:
            ConfigError: Something is missing, unreadable or wrong; names the key and the file.
        """
        mechanism = None
        material, context = tls_parts(alias, settings)
        if settings.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}:
            if settings.sasl is None:
                raise ConfigError(f"{alias}.sasl.mechanism: {alias}.security.protocol={settings.protocol} needs it")
            mechanism = _mechanism(alias, settings.sasl)
        return cls(alias=alias, settings=settings, material=material, ssl_context=context, mechanism=mechanism)

    def as_librdkafka(self) -> dict[str, Any]:
        """The same for confluent-kafka: librdkafka's keys, with all stores as PEM text. It holds secrets. Blocking.

        Raises:
            ClusterUnreachableError: There is no token to be had for OAUTHBEARER.
        """
        config: dict[str, Any] = {"security.protocol": self.settings.protocol}
        if self.ssl_context is not None:
            texts = {
                "ssl.ca.pem": self.material.authorities,
                "ssl.certificate.pem": self.material.chain,
                "ssl.key.pem": self.material.key,
            }
            config |= {key: text for key, text in texts.items() if text is not None}
            config["ssl.endpoint.identification.algorithm"] = (
                self.settings.ssl.endpoint_identification_algorithm or "none"
            )
        if self.mechanism is not None and self.settings.sasl is not None:
            config |= {"sasl.mechanism": self.mechanism.name} | _librdkafka_sasl(
                self.alias, self.mechanism, self.settings.sasl
            )
        return config


def tls_parts(alias: str, settings: SecuritySettings) -> tuple[TlsMaterial, ssl.SSLContext | None]:
    """The TLS material that the settings name, and the context made from it; no context where the protocol has no TLS.

    Raises:
        ConfigError: Something is missing, unreadable or wrong; names the key and the file.
    """
    if settings.protocol not in {"SSL", "SASL_SSL"}:
        return TlsMaterial(), None
    material = load_tls_material(alias, settings.ssl)
    return material, _ssl_context(alias, material, settings.ssl)


def tls_context(prefix: str, settings: SslSettings) -> ssl.SSLContext:
    """The context of a client by what its ``ssl.*`` keys name; ``prefix``: what they begin with.

    Raises:
        ConfigError: Something is missing, unreadable or wrong; names the key and the file.
    """
    return _ssl_context(prefix, load_tls_material(prefix, settings), settings)


def check_security(settings: MirrorSettings) -> Iterator[str]:
    """Yield a problem for each cluster of an enabled flow whose stores or credentials can't be used."""
    used = {alias for flow in settings.flows if flow.enabled for alias in (flow.name.source, flow.name.target)}
    for alias in sorted(used):
        cluster = settings.clusters[alias]
        try:
            ClientSecurity.build(alias, cluster.security)
            if cluster.registry is not None:
                tls_context(f"{alias}.schema.registry", cluster.registry.ssl)
        except ConfigError as error:
            yield from error.problems


def _ssl_context(alias: str, material: TlsMaterial, settings: SslSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.endpoint_identification_algorithm == "https"
    if material.authorities is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=material.authorities)
        except (ssl.SSLError, ValueError, TypeError) as error:
            raise ConfigError(f"{alias}.ssl.truststore: its certificates can't be read: {error}") from error
    if material.chain is not None and material.key is not None:
        try:
            _with_private_file(material.key + material.chain, context.load_cert_chain)
        except ssl.SSLError as error:
            raise ConfigError(
                f"{alias}.ssl.keystore: key and certificate can't be used together: {error.reason or error}"
            ) from error
    return context


def _with_private_file(text: str, use: Callable[[str], None]) -> None:
    """Pass a secret to a function that reads files only: in memory where Linux can, else in a private file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key")
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            use(f"/proc/self/fd/{descriptor}")
        return
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        use(name)
    finally:
        Path(name).unlink()


def _mechanism(alias: str, sasl: SaslSettings) -> Mechanism:
    if sasl.mechanism == "OAUTHBEARER":
        return _oauth_bearer(alias, sasl)
    user = _needed(alias, sasl, sasl.username, "username")
    password = _usable(alias, sasl, sasl.password, "password")
    if sasl.mechanism == "PLAIN":
        return PlainMechanism(cluster=alias, principal=user, password=password)
    return ScramMechanism(cluster=alias, principal=user, password=password, name=sasl.mechanism)


def _oauth_bearer(alias: str, sasl: SaslSettings) -> Mechanism:
    if sasl.token_endpoint_url is None:
        subject = _needed(alias, sasl, sasl.unsecured_subject, "sasl.oauthbearer.token.endpoint.url")
        return OAuthBearer(cluster=alias, principal=subject, tokens=UnsecuredTokens(subject=subject))
    client_id = _needed(alias, sasl, sasl.client_id, "clientId")
    tokens = OidcTokens(
        url=sasl.token_endpoint_url,
        client_id=client_id,
        client_secret=_usable(alias, sasl, sasl.client_secret, "clientSecret"),
        scope=sasl.scope,
        allow_http=sasl.token_endpoint_allow_http,
    )
    return OAuthBearer(cluster=alias, principal=client_id, tokens=tokens)


def _librdkafka_sasl(alias: str, mechanism: Mechanism, sasl: SaslSettings) -> dict[str, Any]:
    if isinstance(mechanism, OAuthBearer):
        return {"oauth_cb": _token_callback(mechanism)}
    password = reveal(f"{alias}.sasl.jaas.config", sasl.password) if sasl.password is not None else None
    return {"sasl.username": sasl.username, "sasl.password": password}


def _token_callback(mechanism: OAuthBearer) -> Callable[[str], tuple[str, float]]:
    """Our tokens for librdkafka. The first is fetched at once, so that its failure is raised here."""
    ready = [mechanism.fetch()]

    def callback(_config: str) -> tuple[str, float]:
        try:
            token, lifetime_s = ready.pop() if ready else mechanism.fetch()
        except ClusterUnreachableError as error:
            _LOG.warning("%s", error)
            raise
        return token, time.time() + lifetime_s

    return callback


def _usable(alias: str, sasl: SaslSettings, secret: Secret | None, key: str) -> Secret:
    """The secret, which can be resolved here."""
    found = _needed(alias, sasl, secret, key)
    reveal(f"{alias}.sasl.jaas.config", found)
    return found


def _needed(alias: str, sasl: SaslSettings, value: _T | None, key: str) -> _T:
    if value is None:
        raise ConfigError(f"{alias}.sasl.jaas.config: {sasl.mechanism} needs {key}")
    return value
