"""A registry asked over HTTP, by nothing of mirror-ray's."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen


def ask(url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and document; text where the answer is no JSON. Raises OSError where nothing answers."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url + path, data, {"Content-Type": "application/vnd.schemaregistry.v1+json"}, method=method)
    try:
        with urlopen(request, timeout=20.0) as response:
            status, text = response.status, response.read()
    except HTTPError as error:
        status, text = error.code, error.read()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode(errors="replace")


def register(url: str, subject: str, schema: str, **more: object) -> tuple[int, Any]:
    """Register a schema; ``more``: schemaType, references, id, version."""
    return ask(url, "POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema, **more})


def avro(name: str, *fields: str) -> str:
    """A record with ints, with the white space that few registries keep."""
    return json.dumps({"type": "record", "name": name, "fields": [{"name": one, "type": "int"} for one in fields]})
