"""Credentials and TLS material that change while clients run: new connections use the new ones.

Passwords of raw connections are not handled here: each SASL exchange resolves its secret anew.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from ssl import SSLContext
from typing import Protocol

from mirror_ray.config.files import file_stamp
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SslSettings
from mirror_ray.kafka.security import ClientSecurity, tls_parts
from mirror_ray.kafka.tls_stores import TlsMaterial
from mirror_ray.model.errors import ConfigError

_LOG = logging.getLogger(__name__)


class SaslClient(Protocol):
    """The method of confluent-kafka's clients that is used here."""

    def set_sasl_credentials(self, username: str, password: str, /) -> None:
        """Set the credentials of the next connections."""


class CurrentSecurity:
    """The security of a cluster's next connection; built again when its TLS files have changed."""

    def __init__(self, cluster: ClusterSettings) -> None:
        """Read and check everything that the settings name.

        Raises:
            ConfigError: Something is missing, unreadable or wrong; names the key and the file.
        """
        self._files = _TlsFiles(cluster)
        self._security = ClientSecurity.build(cluster.alias, cluster.security)

    def now(self) -> ClientSecurity:
        """By the files as they are now; as they were, where they can't be used now: they may be half written."""
        if (parts := self._files.renewed()) is not None:
            self._security = replace(self._security, material=parts[0], ssl_context=parts[1])
        return self._security


class CredentialRenewal:
    """Keeps the credentials of one client of confluent-kafka up to date."""

    def __init__(self, cluster: ClusterSettings) -> None:
        """To be made before the client: a change in between counts as one."""
        self._cluster = cluster
        self._files = _TlsFiles(cluster)
        self._outdated = False
        self._password = self._current_password()

    def renew(self, client: SaslClient) -> bool:
        """Give the client a changed password, for its next connections.

        Returns:
            Whether the client can be kept; where TLS files have changed, and can be used, it has to be made again.
        """
        password = self._current_password()
        sasl = self._cluster.security.sasl
        if password is not None and password != self._password and sasl is not None:
            client.set_sasl_credentials(sasl.username or "", password)
            self._password = password
        self._outdated = self._outdated or self._files.renewed() is not None
        return not self._outdated

    def _current_password(self) -> str | None:
        security = self._cluster.security
        if not security.protocol.startswith("SASL_") or security.sasl is None:
            return None
        return _revealed(security.sasl.password)


class _TlsFiles:
    """Notices that a cluster's TLS material has changed."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._last_trace = _tls_trace(cluster)

    def renewed(self) -> tuple[TlsMaterial, SSLContext | None] | None:
        """The TLS material now; None where it has not changed since the last call, or can't be used."""
        trace = _tls_trace(self._cluster)
        if trace == self._last_trace:
            return None
        self._last_trace = trace
        try:
            parts = tls_parts(self._cluster.alias, self._cluster.security)
        except ConfigError as error:
            _LOG.warning("cluster %s: changed TLS files can't be used yet: %s", self._cluster.alias, error)
            return None
        _LOG.info("cluster %s: TLS files have changed: new connections use them", self._cluster.alias)
        return parts


def _tls_trace(cluster: ClusterSettings) -> tuple[object, ...]:
    """Differs where TLS material may; cheap enough for each connection."""
    if not cluster.security.protocol.endswith("SSL"):
        return ()
    ssl: SslSettings = cluster.security.ssl
    secrets = (ssl.truststore_password, ssl.keystore_password, ssl.keystore_key, ssl.key_password)
    return (
        *(file_stamp(path) for path in (ssl.truststore_location, ssl.keystore_location) if path is not None),
        *(_revealed(secret) for secret in secrets),
    )


def _revealed(secret: Secret | None) -> str | None:
    try:
        return secret.reveal() if secret is not None else None
    except LookupError:
        return None
