"""Options of what users write themselves: any values, of which those that are referred to are kept as references."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, ValidationInfo

from mirror_ray.config.secrets import KEPT, Secret, SecretReference

_MARK: Final = "$secret"


def revealed(value: Any) -> Any:
    """The value with every secret in it as it is now.

    Raises:
        LookupError: A reference leads to nothing here.
    """
    match value:
        case Secret():
            return value.reveal()
        case dict():
            return {key: revealed(each) for key, each in value.items()}
        case list() | tuple():
            return [revealed(each) for each in value]
        case _:
            return value


def _read(value: Any, info: ValidationInfo) -> Any:
    match value:
        case SecretReference():
            return value.secret
        case {"$secret": kept} if info.context == KEPT:
            return Secret.read(kept, info)
        case dict():
            return {key: _read(each, info) for key, each in value.items()}
        case list() | tuple():
            return [_read(each, info) for each in value]
        case _:
            return value


def _written(value: Any, info: SerializationInfo) -> Any:
    match value:
        case Secret():
            kept = value.kept(info)
            return {_MARK: kept} if info.context == KEPT else kept
        case dict():
            return {key: _written(each, info) for key, each in value.items()}
        case list() | tuple():
            return [_written(each, info) for each in value]
        case _:
            return value


#: One option; a reference in it becomes a ``Secret``.
OptionValue = Annotated[Any, BeforeValidator(_read), PlainSerializer(_written, when_used="json")]
