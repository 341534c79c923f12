"""Options of a user's own classes: any values; what a reference leads to is kept as that reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, ValidationInfo

from mirror_ray.config.secrets import STORED, Secret, SecretReference

_MARK: Final = "$secret"


def revealed(value: Any) -> Any:
    """The value with every secret in it resolved.

    Raises:
        LookupError: A reference leads to nothing here.
    """
    return _mapped(value, lambda part: part.reveal() if isinstance(part, Secret) else part)


def _read(value: Any, info: ValidationInfo) -> Any:
    def read(part: Any) -> Any:
        match part:
            case SecretReference():
                return part.secret
            case {"$secret": stored} if info.context == STORED:
                return Secret.read(stored, info)
            case _:
                return part

    return _mapped(value, read)


def _written(value: Any, info: SerializationInfo) -> Any:
    def written(part: Any) -> Any:
        if not isinstance(part, Secret):
            return part
        return {_MARK: part.stored(info)} if info.context == STORED else part.stored(info)

    return _mapped(value, written)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with ``change`` made to each part of it; the parts of what is changed are left alone."""
    if (changed := change(value)) is not value:
        return changed
    match value:
        case dict():
            return {key: _mapped(entry, change) for key, entry in value.items()}
        case list() | tuple():
            return [_mapped(item, change) for item in value]
        case _:
            return value


#: One option; a reference in it becomes a ``Secret``.
OptionValue = Annotated[Any, BeforeValidator(_read), PlainSerializer(_written, when_used="json")]
