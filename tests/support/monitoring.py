"""The dashboards and rules under ``deploy/``, as values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from mirror_ray.observe.problems import ProblemKind

Json: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARDS: dict[str, Json] = {
    path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "deploy/grafana").glob("*.json"))
}


def rule_groups(name: str) -> list[Json]:
    """The groups of a rules file, or of a ``PrometheusRule``."""
    document = yaml.safe_load((PROMETHEUS / name).read_text())
    groups: list[Json] = document["groups"] if "groups" in document else document["spec"]["groups"]
    return groups


ALERTS: list[Json] = [rule for group in rule_groups("alerts.yaml") for rule in group["rules"]]
#: By the name that MM2's dashboards use, the expression that gives it.
RECORDED: dict[str, str] = {
    rule["record"]: rule["expr"] for group in rule_groups("mm2-names.yaml") for rule in group["rules"]
}


def panels(board: Json) -> Iterator[Json]:
    """A dashboard's panels, its headings left out."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def alert_name(kind: ProblemKind) -> str:
    """``flow_down`` is ``MirrorRayFlowDown``."""
    return "MirrorRay" + "".join(word.capitalize() for word in kind.split("_"))
