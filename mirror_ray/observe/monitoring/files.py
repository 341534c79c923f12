"""The files under ``deploy/``: what each holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import yaml

from mirror_ray.observe.metrics import CATALOGUE, Metric
from mirror_ray.observe.monitoring.alerts import alert_group
from mirror_ray.observe.monitoring.dashboards import DASHBOARDS
from mirror_ray.observe.monitoring.mm2_names import mm2_group

_MADE: Final = "# Made by `python -m mirror_ray.observe.monitoring`; change it there.\n"


def files() -> dict[str, str]:
    """The text of each file, by its path from the project's root."""
    boards = {f"deploy/grafana/{board.uid}.json": json.dumps(board.document(), indent=2) + "\n" for board in DASHBOARDS}
    return {
        "docs/metrics.md": _table(),
        "deploy/prometheus/alerts.yaml": _yaml({"groups": [alert_group()]}),
        "deploy/prometheus/mm2-names.yaml": _yaml({"groups": [mm2_group()]}),
        "deploy/prometheus/prometheus-rule.yaml": _yaml(
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": "mirror-ray", "labels": {"app.kubernetes.io/name": "mirror-ray"}},
                "spec": {"groups": [alert_group(), mm2_group()]},
            }
        ),
        **boards,
    }


def _table() -> str:
    rows = [f"| `{name}` | {each.kind} | {', '.join(each.labels)} | {each.text} |" for each, name in _listed()]
    head = "# Metrics\n\nMade by `python -m mirror_ray.observe.monitoring` from `mirror_ray/observe/metrics.py`.\n\n"
    return head + "\n".join(["| series | type | labels | |", "|---|---|---|---|", *rows]) + "\n"


def _listed() -> Iterator[tuple[Metric, str]]:
    for each in CATALOGUE.values():
        yield each, each.series[0] if each.kind == "counter" else each.name


def _yaml(document: object) -> str:
    return _MADE + yaml.safe_dump(document, sort_keys=False, width=10_000, allow_unicode=True)
