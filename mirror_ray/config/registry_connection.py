"""A cluster's ``schema.registry.*`` keys as settings: URLs, and where the credentials are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from mirror_ray.config.base import comma_separated
from mirror_ray.config.fields import FieldValues, RawValue
from mirror_ray.config.keys import REGISTRY_KEYS, KeyUse, find_key
from mirror_ray.config.keys.registry import BASIC_SOURCE_KEY, BEARER_SOURCE_KEY, REGISTRY_PREFIX, URL_KEY
from mirror_ray.config.secrets import Secret

_URLS: Final = "registry.urls"
_USER_INFO: Final = "registry.user_info"
#: What credentials may come from, with the fields of which one at least has to be set then.
_SOURCES: Final = {
    BASIC_SOURCE_KEY: {"USER_INFO": (_USER_INFO,), "URL": ()},
    BEARER_SOURCE_KEY: {
        "STATIC_TOKEN": ("registry.bearer_token",),
        "OAUTHBEARER": ("registry.token_endpoint_url", "registry.client_id", "registry.client_secret"),
    },
}
_KEYS: Final = tuple(key for key in REGISTRY_KEYS if key.name not in _SOURCES)
_UPPER_CASE: Final = tuple(f"{REGISTRY_PREFIX}ssl.{store}.type" for store in ("truststore", "keystore"))
_CHECK_HOST: Final = f"{REGISTRY_PREFIX}ssl.endpoint.identification.algorithm"


def take_registry(fields: FieldValues, config: Mapping[str, RawValue], alias: str, problems: list[str]) -> None:
    """Set ``registry`` of a cluster by its keys; sentences for mistakes go to ``problems``.

    An empty value is none, so that a cluster can be without what the top of the file sets for all.
    """
    given = {
        key: _as_written(key, value)
        for key, value in config.items()
        if key.startswith(REGISTRY_PREFIX) and (value.text.strip() or key == _CHECK_HOST)
    }
    urls = given.get(URL_KEY)
    if urls is None:
        problems.extend(_without_url(given, alias))
        return
    fields.take(_KEYS, given, problems)
    for key, sources in _SOURCES.items():
        if (source := given.get(key)) is None:
            continue
        word = source.text.strip().upper()
        if word not in sources:
            problems.append(f"{source.key}: {word} is not offered; write {' or '.join(sources)}")
        elif word == "URL":
            problems.extend(_take_url_user(fields, urls, source))
        elif not any(field in fields.origins for field in sources[word]):
            needed = " and ".join(f"{alias}.{row.name}" for row in _KEYS if row.field in sources[word])
            problems.append(f"{source.key}: for {word} write {needed}")


def _as_written(key: str, value: RawValue) -> RawValue:
    # Java reads these without regard to case.
    if key in _UPPER_CASE:
        return RawValue(value.text.strip().upper(), value.key)
    return RawValue(value.text.strip().lower(), value.key) if key == _CHECK_HOST else value


def _without_url(given: Mapping[str, RawValue], alias: str) -> Iterator[str]:
    for key, value in given.items():
        row = find_key(REGISTRY_KEYS, key)
        # What the top of the file sets is for the clusters that have a registry.
        if value.key == f"{alias}.{key}" and row is not None and row.use is KeyUse.USED:
            yield f"{value.key}: has no effect without {alias}.{URL_KEY}: write that as well, or remove this"


def _take_url_user(fields: FieldValues, urls: RawValue, source: RawValue) -> Iterator[str]:
    """Take user and password out of the URLs; yield a sentence for each mistake."""
    if _USER_INFO in fields.origins:
        yield f"{fields.origins[_USER_INFO]}: does not go with {source.key} = URL: leave one of the two out"
        return
    found = [_split_user(url) for url in comma_separated(urls.text)]
    users = {user for user, _ in found}
    fields.put(_URLS, tuple(url for _, url in found), urls.key)
    instead = f"write {source.key} = USER_INFO, with {source.key.removesuffix('credentials.source')}user.info"
    if urls.referred is not None:
        # They would be kept as text, for there is no reference to a part of a value.
        yield f"{urls.key}: with {source.key} = URL it can't be a reference: {instead}"
    elif len(users) > 1:
        yield f"{urls.key}: these are URLs of one registry, so all need the same USER:PASSWORD@; or {instead}"
    elif "" in users:
        yield f"{urls.key}: has no USER:PASSWORD@ before its host, although {source.key} = URL; or {instead}"
    else:
        fields.put(_USER_INFO, Secret(unquote(users.pop())), urls.key)


def _split_user(url: str) -> tuple[str, str]:
    """What stands before the host of a URL, and the URL without it."""
    try:
        user = urlsplit(url).netloc.rpartition("@")[0]
    except ValueError:
        # The URL's own check says that it is none.
        return "", url
    return user, url.replace(f"{user}@", "", 1)
