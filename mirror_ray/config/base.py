"""The base of all settings, and their fields by dotted paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

_LONGEST_SHOWN: Final = 60


class Settings(BaseModel):
    """Base of all settings: immutable; a misspelt key is an error, and so is a number that is not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class UnknownFieldError(LookupError):
    """A path names a field that its section does not have; ``known`` are those that it has."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.name, self.known = name, tuple(known)


class FieldPath(NamedTuple):
    """A field within sections."""

    names: tuple[str, ...]
    field: FieldInfo
    #: What the path has below the field: a key of a mapping, a position in a list.
    rest: tuple[str, ...]


def field_path(model: type[BaseModel], path: Sequence[object], *, into_values: bool = False) -> FieldPath:
    """The innermost field of ``model`` that a path such as ``("topics", "include")`` leads to.

    ``into_values``: whether the path goes on in the values of optional fields and of mappings.

    Raises:
        UnknownFieldError: A section on the way has no such field.
    """
    name, *rest = map(str, path)
    field = model.model_fields.get(name)
    if field is None:
        raise UnknownFieldError(name, tuple(model.model_fields))
    names = [name]
    section, below = section_of(field.annotation), rest
    if section is None and into_values:
        section = next(filter(None, map(section_of, get_args(field.annotation))), None)
        if get_origin(field.annotation) is dict:
            names, below = names + rest[:1], rest[1:]
    if section is None or not below:
        return FieldPath(tuple(names), field, tuple(rest))
    found = field_path(section, below, into_values=into_values)
    return found._replace(names=(*names, *found.names))


def comma_separated(text: str) -> tuple[str, ...]:
    """The items of a list as it is written in one value; empty ones do not count."""
    return tuple(filter(None, (item.strip() for item in text.split(","))))


def split_commas(value: object) -> object:
    """A text as the list that it is; anything else unchanged. For pydantic, in front of a list's own checks."""
    return comma_separated(value) if isinstance(value, str) else value


def shown(text: str) -> str:
    """A text that a user wrote, or its beginning, for an error's text."""
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}..."


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a field that is a section; None for other fields."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
