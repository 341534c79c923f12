"""``docs/metrics.md``, made from the catalogue of metrics: run ``python -m mirror_ray.observe.reference``."""

from __future__ import annotations

from pathlib import Path

from mirror_ray.observe.figures import Metric
from mirror_ray.observe.metrics import CATALOGUE

_HEAD = """# Metrics

Made by `python -m mirror_ray.observe.reference` from `mirror_ray/observe`.

| series | type | labels | |
|---|---|---|---|
"""


def metrics_document() -> str:
    """Every metric with its type, labels and help, as Markdown."""
    return _HEAD + "".join(_row(metric) for metric in CATALOGUE.values())


def _row(metric: Metric) -> str:
    name = metric.series[0] if metric.kind == "counter" else metric.name
    return f"| `{name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.text} |\n"


def main() -> None:
    """Write the document anew."""
    (Path(__file__).parents[2] / "docs/metrics.md").write_text(metrics_document(), encoding="utf-8")


if __name__ == "__main__":
    main()
