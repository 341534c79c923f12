"""The gateway's tokens in ``mm2.properties``: ``gateway.tokens = USER, …`` and ``gateway.tokens.USER.token``."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.config.fields import FieldValues, RawValue, parse_value
from mirror_ray.config.keys import ValueKind, nearest
from mirror_ray.config.secrets import Secret

_LIST = "gateway.tokens"
_PREFIX = f"{_LIST}."
_OPTIONS = ("token", "may")


def take_tokens(fields: FieldValues, properties: Mapping[str, RawValue], problems: list[str]) -> None:
    """Set ``tokens`` of the gateway by its keys; a sentence for each key that means nothing goes to ``problems``."""
    listed = properties.get(_LIST)
    parsed = parse_value(ValueKind.LIST, listed.text) if listed is not None else ()
    tokens: dict[str, dict[str, str | Secret]] = (
        {user: {"user": user} for user in parsed} if isinstance(parsed, tuple) else {}
    )
    for key, given in properties.items():
        if not key.startswith(_PREFIX):
            continue
        # Users' names may hold dots.
        user, _, option = key.removeprefix(_PREFIX).rpartition(".")
        if option not in _OPTIONS:
            problems.append(f"{key}: unknown key{nearest(key, (f'{_PREFIX}{user or option}.{o}' for o in _OPTIONS))}")
        elif user not in tokens:
            problems.append(f"{key}: {user!r} is not listed in {_LIST}, so it would do nothing")
        else:
            tokens[user][option] = given.secret() if option == "token" else given.text.strip()
    if tokens:
        fields.put("tokens", tuple(tokens.values()), _LIST)
    for number, user in enumerate(tokens):
        fields.origins[f"tokens.{number}"] = f"{_PREFIX}{user}"
        for option in _OPTIONS:
            fields.origins[f"tokens.{number}.{option}"] = f"{_PREFIX}{user}.{option}"
    # Either is missed where the other is given.
    fields.origins |= {path: f"gateway.{path}" for path in ("tls.certificate", "tls.key")}
