"""Encodes kio's request entities, and decodes answers into kio's response entities."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from kio.index import load_response_from_request
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import RequestPayload


def encode(entity: RequestPayload) -> memoryview:
    """The body of a request."""
    body = io.BytesIO()
    _codec(type(entity))[0](body, entity)
    return body.getbuffer()


def decode(request_type: type[RequestPayload], body: memoryview) -> Any:
    """The answer to a request of this type.

    Raises:
        ValueError: The body can't be read.
    """
    try:
        answer = _codec(request_type)[1](body.toreadonly(), 0)[0]
        _check_arrays(answer)
        return answer
    except Exception as error:
        # kio raises many kinds: index errors, overflows of dates, texts that are no UTF-8.
        raise ValueError(f"its answer to {request_type.__name__} can't be read: {error!r}") from error


@functools.cache
def _codec(request_type: type[RequestPayload]) -> tuple[Callable[..., None], Callable[..., tuple[Any, int]]]:
    return entity_writer(request_type), entity_reader(load_response_from_request(request_type))


def _check_arrays(entity: Any) -> None:
    """Kio accepts a null for any array: refuse it where the schema has none."""
    for name, nullable, nested in _arrays(type(entity)):  # type: ignore[arg-type]  # classes are hashable
        array = getattr(entity, name)
        if array is None and not nullable:
            raise ValueError(f"{name} is null")
        if nested:
            for item in array or ():
                _check_arrays(item)


@functools.cache
def _arrays(entity_type: Any) -> tuple[tuple[str, bool, bool], ...]:
    """Each field that is an array: its name, whether it may be null, whether its items have arrays."""
    found = []
    for field in dataclasses.fields(entity_type):
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        for kind in kinds:
            if get_origin(kind) is tuple:
                (item, *_) = get_args(kind)
                nested = dataclasses.is_dataclass(item) and bool(_arrays(item))  # type: ignore[arg-type]  # as above
                found.append((field.name, NoneType in kinds, nested))
    return tuple(found)
