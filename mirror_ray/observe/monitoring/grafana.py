"""Grafana's dashboards as values: rows of panels, each with its queries. Placed on the grid in reading order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

_COLUMNS: Final = 24
_SCHEMA: Final = 39
_SOURCE: Final[Mapping[str, str]] = {"type": "prometheus", "uid": "${datasource}"}

PanelKind = Literal["timeseries", "stat", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A PromQL expression and what its series are called. ``{{label}}`` in the legend is that label's value."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel; ``unit`` is Grafana's id of it. ``red_above``: from there on a figure is shown as bad."""

    title: str
    says: str
    queries: tuple[Query, ...]
    kind: PanelKind = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    red_above: float | None = None
    #: Of a table: what to show, in this order: labels, and ``Value``.
    columns: tuple[str, ...] = ()
    #: Whether it is well that a query finds nothing.
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardRow:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the top: the values that a label has in a series."""

    name: str
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard; its ``uid`` is what links and updates know it by."""

    uid: str
    title: str
    variables: tuple[Variable, ...]
    rows: tuple[DashboardRow, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """Every panel."""
        return (panel for row in self.rows for panel in row.panels)

    def document(self) -> dict[str, object]:
        """As Grafana imports it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["kafka", "mirror-ray"],
            "schemaVersion": _SCHEMA,
            "version": 1,
            "editable": True,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "templating": {"list": [_datasource(), *(_choice(each) for each in self.variables)]},
            "panels": list(_placed(self.rows)),
        }


def _datasource() -> dict[str, object]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus", "hide": 0}


def _choice(variable: Variable) -> dict[str, object]:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": dict(_SOURCE),
        "query": {"query": f"label_values({variable.series}, {variable.name})", "refId": variable.name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def _placed(rows: Sequence[DashboardRow]) -> Iterator[dict[str, object]]:
    top, number = 0, 1
    for row in rows:
        yield _heading(row.title, number, top)
        top, number, left, lowest = top + 1, number + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                top, left, lowest = top + lowest, 0, 0
            yield _panel(panel, number, left, top)
            number, left, lowest = number + 1, left + panel.width, max(lowest, panel.height)
        top += lowest


def _heading(title: str, number: int, top: int) -> dict[str, object]:
    place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, number: int, left: int, top: int) -> dict[str, object]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": dict(_SOURCE),
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, query, index) for index, query in enumerate(panel.queries)],
        **({"transformations": _table(panel)} if panel.kind == "table" else {}),
    }


def _field(panel: Panel) -> dict[str, object]:
    steps: list[dict[str, object]] = [{"color": "green", "value": None}]
    if panel.red_above is not None:
        steps.append({"color": "red", "value": panel.red_above})
    return {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
        "custom": {"fillOpacity": 8, "showPoints": "never"} if panel.kind == "timeseries" else {},
    }


def _options(panel: Panel) -> dict[str, object]:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "textMode": "auto"}
    if panel.kind == "table":
        return {"showHeader": True, "footer": {"show": False}}
    return {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _target(panel: Panel, query: Query, index: int) -> dict[str, object]:
    table = panel.kind == "table"
    return {
        "refId": chr(ord("A") + index),
        "datasource": dict(_SOURCE),
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        **({"format": "table", "instant": True} if table else {}),
    }


def _table(panel: Panel) -> list[dict[str, object]]:
    order = {name: index for index, name in enumerate(panel.columns)}
    return [
        {"id": "filterFieldsByName", "options": {"include": {"names": list(panel.columns)}}},
        {"id": "organize", "options": {"indexByName": order}},
    ]
