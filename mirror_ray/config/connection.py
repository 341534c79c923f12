"""A cluster's connection keys as settings: addresses, ``security.protocol``, ``ssl.*``, ``sasl.*``, its JAAS line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from mirror_ray.config.checks import check_security
from mirror_ray.config.fields import FieldValues, RawValue, stripped
from mirror_ray.config.jaas import parse_jaas
from mirror_ray.config.keys import CLUSTER_KEYS, CONSUMER_KEYS, SECURITY_KEYS, ConfigKey, find_key
from mirror_ray.config.settings import ClusterSettings

_COMMON = "org.apache.kafka.common.security."
_PLAIN = f"{_COMMON}plain.PlainLoginModule"
_SCRAM = f"{_COMMON}scram.ScramLoginModule"
_OAUTH = f"{_COMMON}oauthbearer.OAuthBearerLoginModule"

_MECHANISMS = {_PLAIN: ("PLAIN",), _SCRAM: ("SCRAM-SHA-256", "SCRAM-SHA-512"), _OAUTH: ("OAUTHBEARER",)}
#: Options of the login modules, and the fields that they set.
_OPTIONS = {
    _PLAIN: {"username": "username", "password": "password"},
    _SCRAM: {"username": "username", "password": "password"},
    _OAUTH: {
        "clientId": "client_id",
        "clientSecret": "client_secret",
        "scope": "scope",
        "unsecuredLoginStringClaim_sub": "unsecured_subject",
    },
}
_SECRET = ("password", "client_secret")
_UPPER_CASE = ("security.protocol", "ssl.truststore.type", "ssl.keystore.type", "sasl.mechanism")
_PLAIN_KEYS: tuple[ConfigKey, ...] = tuple(key for key in SECURITY_KEYS if key.name != "sasl.jaas.config")


#: Keys of a consumer that hold for all clients of its cluster.
CLUSTER_CONSUMER_KEYS: tuple[ConfigKey, ...] = tuple(key for key in CONSUMER_KEYS if key.field.startswith("cluster."))


def shared_connection(
    given: Mapping[str, RawValue],
    rows: tuple[ConfigKey, ...],
    prefixes: Iterable[str],
    advice: Callable[[str], str],
    problems: list[str],
) -> dict[str, RawValue]:
    """The connection keys of a cluster, which all of its clients must share.

    ``given``: keys of the cluster and, behind ``prefixes``, of its clients, of which ``rows`` count. ``advice``: the
    end of the sentence in ``problems`` for a key that differs between two clients.
    """
    connection = {key: value for key, value in given.items() if find_key(rows, key) is not None}
    for prefix in prefixes:
        for key, value in stripped(given, prefix).items():
            if find_key(rows, key) is not None and connection.setdefault(key, value).text != value.text:
                problems.append(f"{value.key}: differs from {connection[key].key}; {advice(key)}")
    return connection


def build_cluster(
    fields: FieldValues,
    connection: Mapping[str, RawValue],
    consumer: Mapping[str, RawValue],
    problems: list[str],
    *,
    alias: str,
    fallback: str,
) -> ClusterSettings | None:
    """Settings of a cluster from its connection keys and its consumer's keys; None: there are mistakes in them.

    ``fallback``: the key that a missing credential is reported under. Mistakes are added to ``problems``.
    """
    fields.take(CLUSTER_KEYS[:1], connection, problems)
    _take_security(fields, connection, problems)
    fields.take(CLUSTER_CONSUMER_KEYS, consumer, problems)
    cluster = fields.build(ClusterSettings, problems, alias)
    if cluster is not None:
        problems.extend(check_security(cluster.security, partial(fields.origin, fallback=fallback)))
    return cluster


def _take_security(fields: FieldValues, given: Mapping[str, RawValue], problems: list[str]) -> None:
    # Java reads these without regard to case.
    upper = {
        key: RawValue(value.text.strip().upper(), value.key) if key in _UPPER_CASE else value
        for key, value in given.items()
    }
    if (check := upper.get("ssl.endpoint.identification.algorithm")) is not None:
        upper["ssl.endpoint.identification.algorithm"] = RawValue(check.text.strip().lower(), check.key)
    protocol = upper.get("security.protocol")
    uses_sasl = protocol is not None and protocol.text.startswith("SASL_")
    # MM2 files often carry SASL keys that the protocol leaves unused; Kafka does not look at them either.
    keys = tuple(key for key in _PLAIN_KEYS if uses_sasl or not key.name.startswith("sasl."))
    mechanism = upper.get("sasl.mechanism")
    if uses_sasl and mechanism is not None and mechanism.text == "GSSAPI":
        problems.append(
            f"{mechanism.key}: Kerberos (GSSAPI) is not offered; "
            "use SCRAM-SHA-512, PLAIN over TLS, OAUTHBEARER or mutual TLS"
        )
        return
    fields.take(keys, upper, problems)
    if uses_sasl and "sasl.jaas.config" in given:
        _take_jaas(fields, given["sasl.jaas.config"], mechanism, problems)


def _take_jaas(fields: FieldValues, line: RawValue, mechanism: RawValue | None, problems: list[str]) -> None:
    try:
        module, options = parse_jaas(line.text)
    except ValueError as error:
        problems.append(f"{line.key}: {error}")
        return
    if module not in _MECHANISMS:
        what = "Kerberos" if module.endswith("Krb5LoginModule") else f"the login module {module}"
        offered = ", ".join(name.rpartition(".")[2] for name in _MECHANISMS)
        problems.append(f"{line.key}: {what} is not offered; use {offered}")
        return
    if mechanism is None:
        problems.append(f"{line.key}: sasl.mechanism is not set; for {module} write {_MECHANISMS[module][-1]}")
        return
    if mechanism.text not in _MECHANISMS[module]:
        problems.append(f"{line.key}: {module} does not go with {mechanism.key}={mechanism.text}")
        return
    for option, text in options.items():
        field = _OPTIONS[module].get(option)
        if field is not None:
            # Kafka's own keys for the client credentials win over the options of the line.
            if f"security.sasl.{field}" not in fields.origins:
                fields.put(f"security.sasl.{field}", line.secret(option) if field in _SECRET else text, line.key)
        elif not option.startswith("unsecured"):
            problems.append(f"{line.key}: the option {option} of {module} is not offered; remove it")
