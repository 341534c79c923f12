"""The entries of a properties file, with what config providers hold in place of references to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror_ray.config.fields import RawValue
from mirror_ray.config.properties import iterate_properties
from mirror_ray.config.providers import build_providers, declared_providers, resolve
from mirror_ray.config.secrets import Secret
from mirror_ray.model.errors import ConfigError

#: A system of fifty clusters, in which each flow has keys of its own, has fewer.
_MOST_KEYS: Final = 10_000


def read_entries(text: str) -> dict[str, str]:
    """Keys and values as they are written; of a key that is given twice, the last value counts.

    Raises:
        ConfigError: There is an escape that is none, named by its line; or there are too many keys.
    """
    try:
        entries = {key: value for key, value, _ in iterate_properties(text)}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if len(entries) > _MOST_KEYS:
        raise ConfigError(f"{len(entries):,} keys, at most {_MOST_KEYS:,} are read: run several systems")
    return entries


def resolve_references(
    entries: Mapping[str, str], environ: Mapping[str, str], problems: list[str]
) -> dict[str, RawValue]:
    """The values of all keys, with what config providers hold in place of references to it."""
    specs = declared_providers(entries, problems)
    providers = build_providers(specs, environ)
    resolved: dict[str, RawValue] = {}
    for key, value in entries.items():
        try:
            found = resolve(value, providers)
            referred = Secret(value, specs, trimmed=True)
        except LookupError as error:
            problems.append(f"{key}: {error.args[0]}")
            resolved[key] = RawValue("", key)
        else:
            resolved[key] = RawValue(found, key, None if referred.is_literal else referred)
    return resolved


def referred_texts(properties: Mapping[str, RawValue]) -> Iterator[str]:
    """What references have led to."""
    return (given.text for given in properties.values() if given.referred is not None)
