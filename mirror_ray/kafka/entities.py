"""kio's request entities as bytes, and the bytes of their answers as kio's response entities."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

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
        ValueError: The body is none.
    """
    try:
        return _codec(request_type)[1](body.toreadonly(), 0)[0]
    except Exception as error:
        # Whatever bytes make of kio: index errors, overflows of dates, texts that are no UTF-8.
        raise ValueError(f"its answer to {request_type.__name__} can't be read: {error!r}") from error


@functools.cache
def _codec(request_type: type[RequestPayload]) -> tuple[Callable[..., None], Callable[..., tuple[Any, int]]]:
    return entity_writer(request_type), entity_reader(load_response_from_request(request_type))
