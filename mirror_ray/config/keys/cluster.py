"""Keys of a cluster: where it is, and how to get in."""

from __future__ import annotations

from typing import Final

from mirror_ray.config.keys.key import ValueKind, ignored, refused, used
from mirror_ray.config.keys.shared import OURS
from mirror_ray.config.token_endpoint import ALLOW_HTTP_KEY, TOKEN_ENDPOINT_KEY

_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_TLS = "TLS 1.2 and 1.3 with the cipher suites of this machine's OpenSSL are used"
_JAVA_TLS = "TLS is OpenSSL's, not the Java machine's"
_TOKENS = "tokens are fetched again before they expire and are checked by the broker"
_JAVA_LOGIN = "it names a Java class; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER with client credentials"

SECURITY_KEYS: Final = (
    used("security.protocol", "security.protocol", default="PLAINTEXT"),
    used("ssl.truststore.location", "security.ssl.truststore_location"),
    used("ssl.truststore.type", "security.ssl.truststore_type", default="JKS"),
    used("ssl.truststore.password", "security.ssl.truststore_password", ValueKind.SECRET),
    used("ssl.truststore.certificates", "security.ssl.truststore_certificates"),
    used("ssl.keystore.location", "security.ssl.keystore_location"),
    used("ssl.keystore.type", "security.ssl.keystore_type", default="JKS"),
    used("ssl.keystore.password", "security.ssl.keystore_password", ValueKind.SECRET),
    used("ssl.keystore.key", "security.ssl.keystore_key", ValueKind.SECRET),
    used("ssl.keystore.certificate.chain", "security.ssl.keystore_certificate_chain"),
    used("ssl.key.password", "security.ssl.key_password", ValueKind.SECRET),
    used("ssl.endpoint.identification.algorithm", "security.ssl.endpoint_identification_algorithm", default="https"),
    used("sasl.mechanism", "security.sasl.mechanism", default="GSSAPI"),
    used("sasl.jaas.config", "security.sasl", ValueKind.SECRET),
    used(TOKEN_ENDPOINT_KEY, "security.sasl.token_endpoint_url"),
    used(ALLOW_HTTP_KEY, "security.sasl.token_endpoint_allow_http", ValueKind.BOOLEAN, text=OURS),
    used("sasl.oauthbearer.client.credentials.client.id", "security.sasl.client_id"),
    used("sasl.oauthbearer.client.credentials.client.secret", "security.sasl.client_secret", ValueKind.SECRET),
    used("sasl.oauthbearer.scope", "security.sasl.scope"),
    refused("sasl.client.callback.handler.class", _JAVA_LOGIN),
    refused(
        "sasl.login.callback.handler.class",
        _JAVA_LOGIN,
        f"{_OAUTH}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    refused("sasl.login.class", _JAVA_LOGIN),
    refused("sasl.kerberos.*", "Kerberos is not offered; use SCRAM-SHA-512, PLAIN over TLS, OAUTHBEARER or mutual TLS"),
    refused(
        "sasl.oauthbearer.jwt.retriever.class",
        _JAVA_LOGIN,
        f"{_OAUTH}DefaultJwtRetriever",
        f"{_OAUTH}ClientCredentialsJwtRetriever",
    ),
    refused(
        "sasl.oauthbearer.assertion.*",
        "tokens by signed assertion are not offered; use the client credentials grant (client id and secret)",
    ),
    refused("ssl.engine.factory.class", "it names a Java class; use PEM, JKS or PKCS12 stores"),
    refused("security.providers", "it names Java classes; remove it", ""),
    *ignored(_TLS, "ssl.protocol ssl.enabled.protocols ssl.cipher.suites"),
    *ignored(
        _JAVA_TLS, "ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation"
    ),
    *ignored(_TOKENS, "sasl.login.* sasl.oauthbearer.*"),
)

#: Keys of a cluster that every client of it shares.
CLUSTER_KEYS: Final = (used("bootstrap.servers", "bootstrap_servers", ValueKind.LIST), *SECURITY_KEYS)
