"""Lists of ``mm2.properties`` whose items have keys of their own: transforms of a flow, tokens of the gateway.

``transforms = NAME, …`` with ``transforms.NAME.…``; ``gateway.tokens = USER, …`` with ``gateway.tokens.USER.…``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirror_ray.config.base import comma_separated
from mirror_ray.config.fields import FieldValues, RawValue
from mirror_ray.config.keys import nearest
from mirror_ray.config.secrets import Secret
from mirror_ray.config.transforms import step_field

_TRANSFORMS = "transforms"
_TRANSFORM_PREFIX = "transforms."
_TOKENS = "gateway.tokens"
_TOKEN_PREFIX = f"{_TOKENS}."
_TOKEN_OPTIONS = ("token", "may")


def unlisted_transforms(properties: Mapping[str, RawValue]) -> Iterator[str]:
    """Yield a sentence for each key of a transform that no list names: it would have no effect."""
    listed = {
        name
        for key, given in properties.items()
        if _own_key(key) == _TRANSFORMS
        for name in comma_separated(given.text)
    }
    for key in properties:
        own = _own_key(key)
        name = own.removeprefix(_TRANSFORM_PREFIX).partition(".")[0]
        if own.startswith(_TRANSFORM_PREFIX) and name not in listed:
            yield f"{key}: {name!r} is not listed in transforms, so it would do nothing"


def _own_key(key: str) -> str:
    """A transform's key without the name of its flow; aliases may have dots."""
    _, of_flow, rest = key.partition("->")
    if not of_flow:
        return key
    _, found, option = rest.partition(f".{_TRANSFORMS}")
    return f"{_TRANSFORMS}{option}" if found else ""


def take_transforms(fields: FieldValues, flow: Mapping[str, RawValue]) -> None:
    """Set ``transforms.steps`` by a flow's ``transforms = NAME, …`` and ``transforms.NAME.…``."""
    listed = flow.get(_TRANSFORMS)
    steps: dict[str, dict[str, object]] = {name: {} for name in comma_separated(listed.text if listed else "")}
    keys = dict.fromkeys(steps, listed.key if listed is not None else _TRANSFORMS)
    for key, given in flow.items():
        if not key.startswith(_TRANSFORM_PREFIX):
            continue
        name, _, option = key.removeprefix(_TRANSFORM_PREFIX).partition(".")
        if name not in steps:
            continue
        if option == "type":
            steps[name]["type"], keys[name] = given.text.strip(), given.key
        elif option == "topics":
            steps[name]["topics"] = comma_separated(given.text)
        else:
            options = steps[name].setdefault("options", {})
            assert isinstance(options, dict)  # noqa: S101 - set in the line before
            options[option] = given.referred or given.text
    fields.put("transforms.steps", tuple(steps.values()), _TRANSFORMS)
    for number, key in enumerate(keys.values()):
        fields.origins[f"transforms.steps.{number}"] = fields.origins[step_field(number)] = key


def take_tokens(fields: FieldValues, properties: Mapping[str, RawValue], problems: list[str]) -> None:
    """Set ``tokens`` of the gateway by its keys; a sentence for each unknown key goes to ``problems``."""
    listed = properties.get(_TOKENS)
    users = comma_separated(listed.text if listed else "")
    tokens: dict[str, dict[str, str | Secret]] = {user: {"user": user} for user in users}
    for key, given in properties.items():
        if not key.startswith(_TOKEN_PREFIX):
            continue
        # Users' names may have dots.
        user, _, option = key.removeprefix(_TOKEN_PREFIX).rpartition(".")
        if option not in _TOKEN_OPTIONS:
            problems.append(
                f"{key}: unknown key{nearest(key, (f'{_TOKEN_PREFIX}{user or option}.{o}' for o in _TOKEN_OPTIONS))}"
            )
        elif user not in tokens:
            problems.append(f"{key}: {user!r} is not listed in {_TOKENS}, so it would do nothing")
        else:
            tokens[user][option] = given.secret() if option == "token" else given.text.strip()
    if tokens:
        fields.put("tokens", tuple(tokens.values()), _TOKENS)
    for number, user in enumerate(tokens):
        fields.origins[f"tokens.{number}"] = f"{_TOKEN_PREFIX}{user}"
        for option in _TOKEN_OPTIONS:
            fields.origins[f"tokens.{number}.{option}"] = f"{_TOKEN_PREFIX}{user}.{option}"
    # For the error where only one of the two is given.
    fields.origins |= {path: f"gateway.{path}" for path in ("tls.certificate", "tls.key")}
