"""Options of a user's own classes: any values; what a reference leads to is kept as that reference."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, ValidationInfo

from mirror_ray.config.secrets import STORED, Secret, SecretReference

_MARK: Final = "$secret"


def revealed(value: Any) -> Any:
    """The value with every secret in it resolved.

    Raises:
        LookupError: A reference leads to nothing here.
    """
    match value:
        case Secret():
            return value.reveal()
        case dict():
            return {key: revealed(entry) for key, entry in value.items()}
        case list() | tuple():
            return [revealed(item) for item in value]
        case _:
            return value


def _read(value: Any, info: ValidationInfo) -> Any:
    match value:
        case SecretReference():
            return value.secret
        case {"$secret": stored} if info.context == STORED:
            return Secret.read(stored, info)
        case dict():
            return {key: _read(entry, info) for key, entry in value.items()}
        case list() | tuple():
            return [_read(item, info) for item in value]
        case _:
            return value


def _written(value: Any, info: SerializationInfo) -> Any:
    match value:
        case Secret():
            stored = value.stored(info)
            return {_MARK: stored} if info.context == STORED else stored
        case dict():
            return {key: _written(entry, info) for key, entry in value.items()}
        case list() | tuple():
            return [_written(item, info) for item in value]
        case _:
            return value


#: One option; a reference in it becomes a ``Secret``.
OptionValue = Annotated[Any, BeforeValidator(_read), PlainSerializer(_written, when_used="json")]
