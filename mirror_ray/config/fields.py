"""From the entries of a properties file to the fields of settings, with errors that name the user's key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from mirror_ray.config.base import comma_separated, shown
from mirror_ray.config.jaas import parse_jaas
from mirror_ray.config.keys import FLOW_KEYS, ConfigKey, KeyUse, ValueKind, find_key
from mirror_ray.config.properties import parse_properties
from mirror_ray.config.providers import build_providers, declared_providers, resolve
from mirror_ray.config.schema_names import context_pairs, subject_pairs
from mirror_ray.config.secrets import Secret
from mirror_ray.model.errors import ConfigError

#: ASCII digits alone, no more than 64 bits hold.
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,19}(\.[0-9]{0,19})?")
POLICY_OPTIONS: Final = "policy.options"
#: More than a system of fifty clusters has, where every flow has keys of its own.
_MOST_KEYS: Final = 10_000

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value, with the key that the user wrote it under. Values may be secret: the repr leaves them out."""

    text: str = field(repr=False)
    key: str
    #: The references that the text was resolved from; None: it has none.
    referred: Secret | None = field(default=None, compare=False)

    def secret(self, option: str | None = None) -> Secret:
        """The value as a secret, or that option of it if it is a JAAS line."""
        if self.referred is not None:
            return self.referred.of_line(option) if option else self.referred
        return Secret(parse_jaas(self.text)[1][option] if option else self.text.strip())


def read_entries(text: str) -> dict[str, str]:
    """Keys and values as they are written; of a key that is given twice, the last value counts.

    Raises:
        ConfigError: An escape is malformed, or there are too many keys; the text has the line.
    """
    try:
        entries = parse_properties(text)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if len(entries) > _MOST_KEYS:
        raise ConfigError(f"{len(entries):,} keys, at most {_MOST_KEYS:,} are read: run several systems")
    return entries


def resolve_references(
    entries: Mapping[str, str], environ: Mapping[str, str], problems: list[str]
) -> dict[str, RawValue]:
    """The values of all keys, with references to config providers resolved."""
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
    """The values that references were resolved to."""
    return (given.text for given in properties.values() if given.referred is not None)


def stripped(given: Mapping[str, RawValue], prefix: str) -> dict[str, RawValue]:
    """The values whose keys begin with a prefix, by what follows it."""
    return {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}


class FieldValues:
    """Collects the values of a model's fields, and the keys that they came from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

    def put(self, path: str, value: object, origin: str) -> None:
        """Set the field at a dotted path."""
        self.origins[path] = origin
        *parents, name = path.split(".")
        section = self.values
        for parent in parents:
            section = section.setdefault(parent, {})
        section[name] = value

    def take(self, keys: Iterable[ConfigKey], given: Mapping[str, RawValue], problems: list[str]) -> None:
        """Parse the used ones of ``keys`` that are given, and set their fields."""
        for key in keys:
            value = given.get(key.name)
            if value is None or key.use is not KeyUse.USED:
                continue
            path = key.field.removeprefix("cluster.")
            try:
                parsed = value.secret() if key.kind is ValueKind.SECRET else parse_value(key.kind, value.text)
            except ValueError as error:
                problems.append(f"{value.key}: {error}")
                continue
            if key.kind is ValueKind.INTERVAL and isinstance(parsed, int) and parsed < 0:
                # MM2 never schedules what has a negative interval.
                self.put(path.replace("interval_s", "enabled"), False, value.key)
            else:
                self.put(path, parsed, value.key)

    def take_policy_options(self, given: Mapping[str, RawValue]) -> None:
        """Set the ``replication.policy.*`` keys without a field of their own, as options of a user's policy."""
        rows = {key: find_key(FLOW_KEYS, key) for key in given}
        options = {key: given[key].text for key, row in rows.items() if row is not None and row.field == POLICY_OPTIONS}
        if options:
            self.put(POLICY_OPTIONS, options, "replication.policy.class")

    def build(self, model: type[Model], problems: list[str], fallback: str) -> Model | None:
        """Build the model; a sentence per mistake, naming the user's key, goes to ``problems``."""
        try:
            return model.model_validate(self.values)
        except ValidationError as invalid:
            problems.extend(f"{self.origin(path, fallback)}: {text}" for path, text in mistakes(invalid))
            return None

    def origin(self, path: str, fallback: str) -> str:
        """The user's key for a field, or for the innermost section around it that has one."""
        while path:
            if path in self.origins:
                return self.origins[path]
            path = path.rpartition(".")[0]
        return fallback


def mistakes(invalid: ValidationError) -> Iterator[tuple[str, str]]:
    """The path of each invalid field, and what is wrong with it."""
    for error in invalid.errors(include_input=False, include_url=False):
        yield ".".join(str(part) for part in error["loc"]), message(error["msg"])


def message(text: str) -> str:
    """A validator's message as a sentence of ours."""
    text = text.removeprefix("Value error, ").replace("Input should be", "should be")
    return "missing" if text == "Field required" else text


_PAIRS: Final = {
    ValueKind.MAP,
    ValueKind.LABELS,
    ValueKind.NAMES,
    ValueKind.RENAMES,
    ValueKind.SUBJECTS,
    ValueKind.CONTEXTS,
}


def parse_value(kind: ValueKind, text: str) -> object:
    """Read a value as Kafka's ConfigDef does.

    Raises:
        ValueError: Not of that kind.
    """
    text = text.strip()
    match kind:
        case ValueKind.LIST:
            return comma_separated(text)
        case _ if kind in _PAIRS:
            return _parse_pairs(kind, text)
        case ValueKind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} is not true or false")
            return text.lower() == "true"
        case ValueKind.INTEGER | ValueKind.SECONDS | ValueKind.INTERVAL:
            return _parse_integer(kind, text)
        case ValueKind.NUMBER:
            return _parse_number(text)
        case _:
            return text.lower() if kind is ValueKind.WORD else text


def _pair(item: str, sign: str) -> tuple[str, str]:
    name, found, value = (part.strip() for part in item.partition(sign))
    if not (name and found and value):
        raise ValueError(f"{item!r} is not name{sign}value")
    return name, value


def _parse_pairs(kind: ValueKind, text: str) -> object:
    match kind:
        case ValueKind.MAP:
            return dict(_pair(item, ":") for item in comma_separated(text.lower()))
        case ValueKind.LABELS:
            return dict(_pair(item, "=") for item in comma_separated(text))
        case ValueKind.NAMES:
            return _parse_names(text)
        case ValueKind.SUBJECTS:
            return subject_pairs(text)
        case ValueKind.CONTEXTS:
            return context_pairs(text)
        case _:
            return tuple({"match": match, "to": to} for match, to in _pairs(text))


def _parse_names(text: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for topic, remote in _pairs(text):
        if names.setdefault(topic, remote) != remote:
            raise ValueError(f"topic {topic!r} has two names, {names[topic]!r} and {remote!r}: leave one of them")
    return names


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield each item's parts before and behind its last colon; no topic's name has one, patterns may."""
    for item in comma_separated(text):
        before, colon, behind = (part.strip() for part in item.rpartition(":"))
        if not colon or not before or not behind:
            raise ValueError(f"{item!r} is no pair: write TOPIC:NAME, more of them separated by commas")
        yield before, behind


def _parse_integer(kind: ValueKind, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a whole number")
    number = int(text)
    if kind is ValueKind.SECONDS and number <= 0:
        raise ValueError(f"{number} is not above 0")
    if kind is ValueKind.INTERVAL and number == 0:
        raise ValueError("0 is no interval; write a number above 0, or turn the feature off by its enabled key")
    return number


def _parse_number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a number")
    return float(text)
