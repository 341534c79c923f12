"""Connections of an ``mm2.properties``: protocols, stores and JAAS lines."""

from __future__ import annotations

import pytest

from mirror_ray.config.jaas import parse_jaas
from mirror_ray.config.loaded import LoadedConfig
from mirror_ray.config.settings import SaslSettings
from mirror_ray.config.token_endpoint import token_endpoint_problem
from tests.unit.config.conftest import Load, Problems

_MODULES = "org.apache.kafka.common.security"
_SASL = "A.security.protocol = sasl_ssl\n"


def _sasl(loaded: LoadedConfig) -> SaslSettings:
    sasl = loaded.settings.clusters["A"].security.sasl
    assert sasl is not None
    return sasl


def _password(sasl: SaslSettings) -> str:
    assert sasl.password is not None
    return sasl.password.reveal()


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram"), ("SCRAM-SHA-512", "scram.Scram")],
)
def test_user_and_password(load: Load, mechanism: str, module: str) -> None:
    """A continued JAAS line with quotes and escapes in the password."""
    text = f"""{_SASL}A.sasl.mechanism = {mechanism}
A.sasl.jaas.config = {_MODULES}.{module}LoginModule required \\
    username="mirror" \\
    password="p=;\\\\"w";
"""
    loaded = load(text)
    sasl = _sasl(loaded)
    assert (sasl.mechanism, sasl.username, _password(sasl)) == (mechanism, "mirror", 'p=;"w')
    assert loaded.settings.clusters["A"].security.protocol == "SASL_SSL"
    assert 'p=;"w' not in repr(loaded)


def test_client_credentials(load: Load) -> None:
    """OAUTHBEARER by the options of the line or by Kafka's own keys, which win."""
    text = f"""{_SASL}A.sasl.mechanism = OAUTHBEARER
A.sasl.oauthbearer.token.endpoint.url = https://id.example.com/token
A.sasl.login.callback.handler.class = {_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler
A.sasl.jaas.config = {_MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="s" scope="k";
"""
    sasl = _sasl(load(text))
    assert (sasl.token_endpoint_url, sasl.client_id, sasl.scope) == ("https://id.example.com/token", "c", "k")
    assert sasl.client_secret is not None
    assert sasl.client_secret.reveal() == "s"
    assert _sasl(load(text + "A.sasl.oauthbearer.client.credentials.client.id = d")).client_id == "d"


def test_unsecured_tokens(load: Load) -> None:
    """For development."""
    text = f"""{_SASL}A.sasl.mechanism = OAUTHBEARER
A.sasl.jaas.config = {_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="u";
"""
    assert _sasl(load(text)).unsecured_subject == "u"


def test_stores(load: Load) -> None:
    """JKS, PKCS12 and PEM as ssl.* names them; an empty algorithm turns the host name check off."""
    ssl = (
        load(
            "A.security.protocol = SSL\nA.ssl.truststore.location = /t.jks\nA.ssl.truststore.type = jks\n"
            "A.ssl.keystore.location = /k.p12\nA.ssl.keystore.type = PKCS12\nA.ssl.keystore.password = x\n"
            "A.ssl.endpoint.identification.algorithm =\n"
        )
        .settings.clusters["A"]
        .security.ssl
    )
    assert (ssl.truststore_type, ssl.keystore_type, ssl.endpoint_identification_algorithm) == ("JKS", "PKCS12", "")


def test_sasl_keys_without_a_sasl_protocol_are_unused(load: Load) -> None:
    """Kafka does not look at them either."""
    text = "A.security.protocol = SSL\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = whatever"
    assert load(text).settings.clusters["A"].security.sasl is None


_OAUTH = "A.sasl.mechanism = OAUTHBEARER\n"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLIENT = "A.sasl.oauthbearer.client.credentials.client"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "A.sasl.mechanism: SASL_SSL needs a SASL mechanism"),
        ("A.sasl.mechanism = GSSAPI", "A.sasl.mechanism: Kerberos (GSSAPI) is not offered"),
        ("A.sasl.mechanism = PLAIN", "A.sasl.mechanism: PLAIN needs a username and a password"),
        ("A.sasl.mechanism = OAUTHBEARER", "OAUTHBEARER needs a token endpoint URL"),
        (
            f"{_OAUTH}A.{_ENDPOINT} = http://id.example/t\n{_CLIENT}.id = c\n{_CLIENT}.secret = s",
            "A.sasl.oauthbearer.token.endpoint.url: it is plain HTTP",
        ),
        ("A.sasl.mechanism = MAGIC", "A.sasl.mechanism: should be 'PLAIN'"),
        ("A.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required;", "Kerberos is not offered"),
        ("A.sasl.jaas.config = com.example.Login required a=b;", "com.example.Login is not offered; use Plain"),
        (f"A.sasl.jaas.config = {_MODULES}.plain.PlainLoginModule required;", "sasl.mechanism is not set"),
        (
            f"A.sasl.mechanism = PLAIN\nA.sasl.jaas.config = {_MODULES}.scram.ScramLoginModule required;",
            "does not go with A.sasl.mechanism=PLAIN",
        ),
        (
            f"A.sasl.mechanism = SCRAM-SHA-256\nA.sasl.jaas.config = {_MODULES}.scram.ScramLoginModule required t=1;",
            "the option t of",
        ),
    ],
)
def test_mistake_is_named(problems: Problems, text: str, says: str) -> None:
    """What is missing or not offered, with the alternative."""
    found = problems(_SASL + text)
    assert any(says in problem for problem in found), found


@pytest.mark.parametrize("line", ["", "required;", "a.B required x=1", 'a.B required x="top-secret y=1;'])
def test_broken_jaas_line_is_not_repeated(line: str) -> None:
    """It holds secrets."""
    with pytest.raises(ValueError, match=r"semicolon|write:") as error:
        parse_jaas(line)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["https://id.example/token", "http://127.0.0.1:8080/t", "http://[::1]/", "http://localhost/"]
)
def test_the_secret_may_go_by_tls_and_within_this_machine(url: str) -> None:
    """Over plain HTTP to another one only where the configuration says so."""
    assert token_endpoint_problem(url, allow_http=False) is None
    assert token_endpoint_problem("http://id.example/token", allow_http=True) is None
    assert token_endpoint_problem("http://127.0.0.1.id.example/token", allow_http=False) is not None
