"""How a ``KafkaMirrorMaker2`` resource says how to get into a cluster: TLS, authentication, and config providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from mirror_ray.config.base import comma_separated
from mirror_ray.config.loaded import ConfigNote
from mirror_ray.config.strimzi_properties import ResourceProperties
from mirror_ray.config.token_endpoint import TOKEN_ENDPOINT_KEY

#: Names the directory below which each Secret is mounted in a directory of its name.
SECRETS_DIRECTORY: Final = "MIRROR_RAY_SECRETS_DIRECTORY"
_SECRETS_DIRECTORY: Final = "/etc/mirror-ray-secrets"

_KAFKA: Final = "org.apache.kafka.common.config.provider."
#: Those that Strimzi's operator declares.
_PROVIDERS: Final = {
    "strimzidir": "DirectoryConfigProvider",
    "strimzienv": "EnvVarConfigProvider",
    "strimzifile": "FileConfigProvider",
}
_OF_KUBERNETES: Final = ("KubernetesSecretConfigProvider", "KubernetesConfigMapConfigProvider")
#: Mechanisms with a user and a password, and their login modules.
_LOGINS: Final = {
    "plain": ("PLAIN", "plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "scram.ScramLoginModule"),
}
_TYPES: Final = ("tls", *_LOGINS, "oauth", "custom")
#: What the operator lets custom authentication set.
_CUSTOM: Final = ("sasl.", "ssl.keystore.")
_OAUTH: Final = "sasl.oauthbearer.client.credentials.client."
_OAUTH_FIELDS: Final = frozenset({"type", "clientId", "clientSecret", "tokenEndpointUri", "scope"})
_OAUTH_IGNORED: Final = frozenset(
    {
        *("accessTokenIsJwt", "enableMetrics", "includeAcceptHeader", "maxTokenExpirySeconds"),
        *("connectTimeoutSeconds", "httpRetries", "httpRetryPauseMs", "readTimeoutSeconds"),
    }
)


def secrets_directory(environ: Mapping[str, str]) -> str:
    """Where Secrets are mounted: what the environment variable says, or ``/etc/mirror-ray-secrets``."""
    return environ.get(SECRETS_DIRECTORY) or _SECRETS_DIRECTORY


def put_providers(found: ResourceProperties, config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Declare config providers, the operator's and those of a cluster's config; returns the rest of the config."""
    declared = comma_separated(str(config.get("config.providers", "")))
    names = dict.fromkeys((*comma_separated(found.texts.get("config.providers", "")), *_PROVIDERS))
    found.of_kubernetes.add("strimzisecrets")
    for name, kind in _PROVIDERS.items():
        found.put(f"config.providers.{name}.class", _KAFKA + kind, path)
    for name in declared:
        if str(config.get(f"config.providers.{name}.class", "")).endswith(_OF_KUBERNETES):
            found.of_kubernetes.add(name)
            continue
        names[name] = None
        prefix = f"config.providers.{name}."
        for key, value in config.items():
            if key.startswith(prefix):
                found.put(key, value, f"{path}.{key}")
    found.texts["config.providers"] = ",".join(names)
    return {key: value for key, value in config.items() if not key.startswith("config.providers")}


def put_security(found: ResourceProperties, alias: str, cluster: Mapping[str, Any], path: str) -> None:
    """Put the keys of TLS and authentication of a cluster."""
    with_tls = cluster.get("tls") is not None
    if with_tls:
        tls = found.mapping(cluster["tls"], f"{path}.tls")
        _put_truststore(found, alias, tls.get("trustedCertificates"), f"{path}.tls.trustedCertificates")
    with_sasl, at = False, f"{path}.authentication"
    if cluster.get("authentication") is not None:
        authentication = found.mapping(cluster["authentication"], at)
        with_sasl = _put_authentication(found, alias, authentication, at)
        if authentication.get("type") == "tls" and not with_tls:
            found.problems.append(f"{at}.type: a client's certificate is shown over TLS: write {path}.tls, too")
    protocol = f"SASL_{'SSL' if with_tls else 'PLAINTEXT'}" if with_sasl else "SSL" if with_tls else "PLAINTEXT"
    found.put(f"{alias}.security.protocol", protocol, at if with_sasl else f"{path}.tls" if with_tls else path)


def _put_truststore(found: ResourceProperties, alias: str, trusted: object, path: str) -> None:
    certificates = [text for at, one in found.items(trusted, path) for text in _certificates(found, one, at)]
    if certificates:
        found.put(f"{alias}.ssl.truststore.certificates", "\n".join(certificates), path)
        found.put(f"{alias}.ssl.truststore.type", "PEM", path)


def _certificates(found: ResourceProperties, source: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield references to the certificates of one Secret: one by its key, or all whose keys fit a pattern."""
    name, pattern = source.get("secretName"), source.get("pattern")
    if not isinstance(name, str) or not isinstance(pattern, str):
        yield found.secret(source, "certificate", path)
        return
    directory = Path(found.secrets_directory, name)
    keys = sorted(file.name for file in directory.glob("*") if file.is_file()) if directory.is_dir() else []
    fitting = [key for key in keys if fnmatchcase(key, pattern)]
    if not fitting:
        found.problems.append(f"{path}: no file in {directory} fits {pattern}: mount the Secret {name} there")
    yield from (found.mounted(name, key) for key in fitting)


def _put_authentication(found: ResourceProperties, alias: str, fields: Mapping[str, Any], path: str) -> bool:
    """Put its keys; returns whether it is by SASL."""
    kind = fields.get("type")
    match kind:
        case "tls":
            pair, at = fields.get("certificateAndKey"), f"{path}.certificateAndKey"
            found.put(f"{alias}.ssl.keystore.certificate.chain", found.secret(pair, "certificate", at), at)
            found.put(f"{alias}.ssl.keystore.key", found.secret(pair, "key", at), at)
            found.put(f"{alias}.ssl.keystore.type", "PEM", at)
        case "plain" | "scram-sha-256" | "scram-sha-512":
            _put_login(found, alias, fields, path)
        case "oauth":
            _put_client_credentials(found, alias, fields, path)
        case "custom":
            return _put_custom(found, alias, fields, path)
        case _:
            found.problems.append(f"{path}.type: write one of {', '.join(_TYPES)}")
    return kind != "tls"


def _put_login(found: ResourceProperties, alias: str, fields: Mapping[str, Any], path: str) -> None:
    mechanism, module = _LOGINS[fields["type"]]
    user = fields.get("username")
    if not isinstance(user, str) or not user:
        found.problems.append(f"{path}.username: missing")
        return
    password = found.secret(fields.get("passwordSecret"), "password", f"{path}.passwordSecret")
    quoted = user.replace("\\", "\\\\").replace('"', '\\"')
    line = f'org.apache.kafka.common.security.{module} required username="{quoted}" password="{password}";'
    found.put(f"{alias}.sasl.mechanism", mechanism, path)
    found.put(f"{alias}.sasl.jaas.config", line, path)


def _put_client_credentials(found: ResourceProperties, alias: str, fields: Mapping[str, Any], path: str) -> None:
    for name in fields:
        if name in _OAUTH_IGNORED:
            text = "tokens are fetched again before they expire and are checked by the broker"
            found.notes.append(ConfigNote(kind="ignored", key=f"{path}.{name}", text=text))
        elif name not in _OAUTH_FIELDS:
            found.problems.append(
                f"{path}.{name}: not offered; tokens come by the client credentials grant, of clientId, clientSecret, "
                "tokenEndpointUri and scope, over TLS that this machine's certificates vouch for"
            )
    found.put(f"{alias}.sasl.mechanism", "OAUTHBEARER", path)
    found.put(f"{alias}.{TOKEN_ENDPOINT_KEY}", fields.get("tokenEndpointUri"), f"{path}.tokenEndpointUri")
    found.put(f"{alias}.{_OAUTH}id", fields.get("clientId"), f"{path}.clientId")
    secret = found.secret(fields.get("clientSecret"), "key", f"{path}.clientSecret")
    found.put(f"{alias}.{_OAUTH}secret", secret, f"{path}.clientSecret")
    found.put(f"{alias}.sasl.oauthbearer.scope", fields.get("scope"), f"{path}.scope")


def _put_custom(found: ResourceProperties, alias: str, fields: Mapping[str, Any], path: str) -> bool:
    for key, value in found.mapping(fields.get("config"), f"{path}.config").items():
        if key.startswith(_CUSTOM):
            found.put(f"{alias}.{key}", value, f"{path}.config.{key}")
        else:
            text = f"the operator takes only keys that begin with {' or '.join(_CUSTOM)}"
            found.notes.append(ConfigNote(kind="ignored", key=f"{path}.config.{key}", text=text))
    return fields.get("sasl") is True
