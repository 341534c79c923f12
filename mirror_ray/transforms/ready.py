"""The ready transforms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from mirror_ray.model.patterns import Pattern, compile_patterns
from mirror_ray.transforms.record import Headers, Record
from mirror_ray.transforms.transform import Result, Transform


class MaskJsonFields(Transform):
    """Replaces fields of JSON values.

    Options:
        fields: Their paths, as a list or separated by commas: ``user.email`` is the ``email`` in the object ``user``.
            In a list they are those of every element.
        replacement: What to put there; by default ``***``.

    A value that is no JSON, or no UTF-8, is an error of its record. Where no field is found the value stays as it is,
    byte by byte; else it is written anew, without blanks, each number in Python's notation. Tombstones pass.
    """

    version = "1"
    pure = True
    reads = ("value",)

    def __init__(self, fields: str | Sequence[str], replacement: object = "***") -> None:
        """Raises ValueError if a path is empty."""
        listed = fields.split(",") if isinstance(fields, str) else fields
        self._paths = [path.strip().split(".") for path in listed]
        if not self._paths or not all(all(path) for path in self._paths):
            raise ValueError(f"fields: {fields!r} holds no path, or an empty one")
        self._replacement = replacement
        self._decode = json.JSONDecoder().decode
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Mask each value."""
        return [self._masked(record) for record in records]

    def _masked(self, record: Record) -> Result:
        value = record.value
        if value is None:
            return record
        try:
            document = self._decode(str(value, "utf-8"))
            found = False
            for path in self._paths:
                found |= self._replace(document, path, 0)
            return record._replace(value=self._encode(document).encode()) if found else record
        except (ValueError, RecursionError) as error:
            return error

    def _replace(self, node: object, path: list[str], at: int) -> bool:
        """Whether there was something to replace."""
        if isinstance(node, list):
            # All of them, not only up to the first that has the field.
            found = [self._replace(element, path, at) for element in node]
            return any(found)
        name = path[at]
        if not isinstance(node, dict) or name not in node:
            return False
        if at + 1 < len(path):
            return self._replace(node[name], path, at + 1)
        node[name] = self._replacement
        return True


class FilterByKey(Transform):
    """Keeps the records whose key matches a regular expression as a whole, and leaves out the others.

    Options:
        pattern: The expression, written as those of topics; keys are read as UTF-8.
        drop: ``true`` leaves out the records that match, and keeps the others.

    A record without a key matches nothing. A key that is too long for its pattern is an error of its record.
    """

    version = "2"
    pure = True
    reads = ("key",)

    def __init__(self, pattern: str, drop: bool | str = False) -> None:
        """Raises ValueError if the pattern is none, or ``drop`` is neither true nor false."""
        self._pattern = _compiled("pattern", pattern)
        self._drop = _truth("drop", drop)

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Keep or leave out each record."""
        fits, drop = self._pattern.fits, self._drop
        results: list[Result] = []
        for record in records:
            key = record.key
            try:
                results.append(record if (key is not None and fits(key)) is not drop else None)
            except ValueError as error:
                results.append(error)
        return results


class InsertHeader(Transform):
    """Adds a header to each record, behind those that it has.

    Options:
        name: The header's name.
        value: Its value, written as UTF-8.
        replace: ``true`` takes away headers of that name first.
    """

    version = "1"
    pure = True
    reads = ("headers",)

    def __init__(self, name: str, value: str, replace: bool | str = False) -> None:
        """Raises ValueError if the name is empty, or ``replace`` is neither true nor false."""
        if not name:
            raise ValueError("name: it is empty")
        self._name = name
        self._header: Headers = ((name, str(value).encode()),)
        self._replace = _truth("replace", replace)

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Add it to each record."""
        header, make = self._header, Record._make
        if self._replace:
            return [record._replace(headers=self._others(record.headers) + header) for record in records]
        return [make((*record[:2], record[2] + header, *record[3:])) for record in records]

    def _others(self, headers: Headers) -> Headers:
        return tuple(header for header in headers if header[0] != self._name)


class Route(Transform):
    """Sends records to other remote topics, by a header, a field of a JSON value, or the key.

    Options, of which the first two say what decides; without both it is the key:
        header: A header's name; of several the last one counts.
        field: A path into a JSON value, ``customer.region``. Texts are taken as they are, other values as JSON.
        to: Remote topics by regular expression, as a map, or as a text ``eu-.*=orders-eu, us-.*=orders-us``. The first
            expression that matches as a whole decides.

    A record that none matches, or without what decides, stays in the flow's own remote topic. With ``field`` a value
    that is no JSON, or no UTF-8, is an error of its record, and so is a text that is too long for an expression.
    """

    version = "2"
    pure = True

    def __init__(self, to: str | Mapping[str, str], header: str | None = None, field: str | None = None) -> None:
        """Raises ValueError if ``header`` and ``field`` are both given, a path is empty, or ``to`` has another form."""
        if header is not None and field is not None:
            raise ValueError("header and field exclude each other: name one of them, or none for the key")
        if header == "" or (field is not None and not all(field.split("."))):
            raise ValueError("header: it is empty" if header == "" else f"field: {field!r} is no path")
        self._routes = tuple(_routes(to))
        self.destinations = tuple(dict.fromkeys(topic for _, topic in self._routes))
        self._header = header
        self._path = field.split(".") if field is not None else None

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """What decides."""
        return ("value" if self._path is not None else "headers" if self._header is not None else "key",)

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Set the destination of each record."""
        return [self._routed(record) for record in records]

    def _routed(self, record: Record) -> Result:
        try:
            text = self._text(record)
            found = (
                None if text is None else next((topic for pattern, topic in self._routes if pattern.fits(text)), None)
            )
        except (ValueError, RecursionError) as error:
            return error
        return record if found is None else record.to(found)

    def _text(self, record: Record) -> str | bytes | None:
        if self._path is not None:
            return None if record.value is None else _field_text(json.loads(str(record.value, "utf-8")), self._path)
        if self._header is not None:
            return next((value for name, value in reversed(record.headers) if name == self._header), None)
        return record.key


def _field_text(node: object, path: Sequence[str]) -> str | None:
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return None
        node = node[name]
    return node if isinstance(node, str) else json.dumps(node)


def _routes(to: str | Mapping[str, str]) -> Iterator[tuple[Pattern, str]]:
    given = [item.rpartition("=")[::2] for item in to.split(",")] if isinstance(to, str) else list(to.items())
    for pattern, topic in given:
        if not pattern.strip() or not str(topic).strip():
            raise ValueError("to: write PATTERN=TOPIC, separated by commas, or a map of patterns to topics")
        yield _compiled("to", pattern.strip()), str(topic).strip()


def _compiled(option: str, pattern: str) -> Pattern:
    try:
        compiled = compile_patterns((pattern,))
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from error
    assert compiled is not None  # noqa: S101 - None only for no patterns
    return compiled


def _truth(option: str, value: bool | str) -> bool:
    """A switch, as a YAML or a properties file has it."""
    if isinstance(value, bool):
        return value
    if value.strip().lower() not in ("true", "false"):
        raise ValueError(f"{option}: {value!r} is not true or false")
    return value.strip().lower() == "true"
