"""What a field of a status value is called and how it is shown, declared where the field is.

The columns of the command line's tables, those of the web UI, and the metrics are made from it. A status class names
the columns of its tables in ``CLI_COLUMNS`` and ``WEB_COLUMNS``, and in ``WEB_WIDE`` those that a narrow screen leaves
out; its fields are the keys of the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

#: ``number``: an integer without separators. ``offset``: the same, negative for none. ``count``: with separators.
#: ``share``: 1 is all of it. ``pair``: this field and ``Figure.second``.
Format = Literal["text", "state", "number", "offset", "count", "bytes", "seconds", "ratio", "share", "money", "pair"]
MetricKind = Literal["gauge", "counter", "histogram"]
_KEY: Final = "figure"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A counter's series carries ``_total`` behind the name."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    text: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that queries use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (f"{self.name}_total",) if self.kind == "counter" else (self.name,)


def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    """A gauge named ``mirror_ray_<name>``."""
    return Metric(f"mirror_ray_{name}", "gauge", labels, text)


def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    """A counter whose series is ``mirror_ray_<name>_total``."""
    return Metric(f"mirror_ray_{name}", "counter", labels, text)


@dataclass(frozen=True, slots=True)
class Figure:
    """How one field is shown."""

    #: The heading of its column; the command line writes it in capitals.
    title: str
    format: Format
    #: The heading in the web UI, where it is another one.
    web_title: str
    #: The field that a ``pair`` shows behind this one.
    second: str
    #: Its metric; labels are those of the status class.
    metric: Metric | None


def figure(
    title: str = "", form: Format = "text", *, web: str = "", second: str = "", metric: Metric | None = None
) -> Mapping[str, Figure]:
    """The metadata of a field: how it is shown."""
    return {_KEY: Figure(title, form, web or title, second, metric)}


def figures_of(status: type[Any]) -> Mapping[str, Figure]:
    """The figures of a status class by their fields' names, in the fields' order."""
    return {field.name: field.metadata[_KEY] for field in fields(status) if _KEY in field.metadata}


def metrics_of(status: type[Any]) -> Mapping[str, Metric]:
    """The metrics of a status class by the names of the fields that hold their values; labels are left out."""
    return {name: figure.metric for name, figure in figures_of(status).items() if figure.metric is not None}
