"""Settings of a cluster for a process on another machine: what they refer to is in them."""

from __future__ import annotations

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SslSettings
from mirror_ray.kafka.tls_stores import load_tls_material, reveal


def portable(cluster: ClusterSettings) -> ClusterSettings:
    """The same settings with secrets and TLS material as text, so that no file or variable is needed to use them.

    Their ``repr`` still shows no secret; pickled they hold all of them.

    Raises:
        ConfigError: A store or a secret can't be read here; names the key.
    """
    security = cluster.security
    update: dict[str, object] = {}
    if security.protocol in {"SSL", "SASL_SSL"}:
        update["ssl"] = _ssl(cluster.alias, security.ssl)
    if security.sasl is not None:
        update["sasl"] = _sasl(cluster.alias, security.sasl)
    return cluster.model_copy(update={"security": security.model_copy(update=update)})


def _ssl(alias: str, ssl: SslSettings) -> SslSettings:
    material = load_tls_material(alias, ssl)
    return SslSettings(
        truststore_certificates=material.authorities,
        keystore_key=Secret(material.key) if material.key is not None else None,
        keystore_certificate_chain=material.chain,
        endpoint_identification_algorithm=ssl.endpoint_identification_algorithm,
    )


def _sasl(alias: str, sasl: SaslSettings) -> SaslSettings:
    key = f"{alias}.sasl.jaas.config"
    secrets = {"password": sasl.password, "client_secret": sasl.client_secret}
    plain = {name: Secret(reveal(key, secret)) for name, secret in secrets.items() if secret is not None}
    return sasl.model_copy(update=plain)
