"""Keys of a cluster's schema registry, named as Confluent's serializers name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirror_ray.config.keys.cluster import SECURITY_KEYS
from mirror_ray.config.keys.key import KeyUse, ValueKind, ignored, refused, used
from mirror_ray.config.keys.shared import OURS
from mirror_ray.config.token_endpoint import REGISTRY_ALLOW_HTTP_KEY

REGISTRY_PREFIX: Final = "schema.registry."
URL_KEY: Final = f"{REGISTRY_PREFIX}url"
BASIC_SOURCE_KEY: Final = f"{REGISTRY_PREFIX}basic.auth.credentials.source"
BEARER_SOURCE_KEY: Final = f"{REGISTRY_PREFIX}bearer.auth.credentials.source"
_BASIC: Final = f"{REGISTRY_PREFIX}basic.auth."
_BEARER: Final = f"{REGISTRY_PREFIX}bearer.auth."

REGISTRY_KEYS: Final = (
    used(URL_KEY, "registry.urls", ValueKind.LIST, text=OURS),
    used(BASIC_SOURCE_KEY, "registry.user_info", text=OURS, silent="by the keys that are given"),
    used(f"{_BASIC}user.info", "registry.user_info", ValueKind.SECRET, text=OURS),
    used(BEARER_SOURCE_KEY, "registry.bearer_token", text=OURS, silent="by the keys that are given"),
    used(f"{_BEARER}token", "registry.bearer_token", ValueKind.SECRET, text=OURS),
    used(f"{_BEARER}issuer.endpoint.url", "registry.token_endpoint_url", text=OURS),
    used(f"{_BEARER}client.id", "registry.client_id", text=OURS),
    used(f"{_BEARER}client.secret", "registry.client_secret", ValueKind.SECRET, text=OURS),
    used(f"{_BEARER}scope", "registry.scope", text=OURS),
    used(REGISTRY_ALLOW_HTTP_KEY, "registry.allow_http", ValueKind.BOOLEAN, "false", text=OURS),
    used(f"{REGISTRY_PREFIX}request.timeout.ms", "registry.request_timeout_ms", ValueKind.INTEGER, "10000", OURS),
    used(
        f"{REGISTRY_PREFIX}requests.per.second",
        "registry.requests_per_second",
        ValueKind.INTEGER,
        "0",
        OURS,
        silent="0: no limit",
    ),
    *(
        replace(
            row,
            name=f"{REGISTRY_PREFIX}{row.name}",
            field=row.field.replace("security.", "registry."),
            text=OURS if row.use is KeyUse.USED else row.text,
        )
        for row in SECURITY_KEYS
        if row.name.startswith("ssl.")
    ),
    refused(f"{_BEARER}logical.cluster", "it is not sent; use basic authentication, with an API key of the registry"),
    refused(f"{_BEARER}identity.pool.id", "it is not sent; use basic authentication, with an API key of the registry"),
    refused(f"{_BEARER}custom.*", "it is of a Java class; use STATIC_TOKEN or OAUTHBEARER"),
    refused(f"{REGISTRY_PREFIX}proxy.*", "set the environment's HTTPS_PROXY on every node, and remove it"),
    *ignored(
        "tokens are fetched again before they expire and are checked by the registry",
        f"{_BEARER}cache.expiry.buffer.seconds {_BEARER}scope.claim.name {_BEARER}sub.claim.name",
    ),
)
