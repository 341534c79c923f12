"""What status values declare of their fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mirror_ray.observe.figures import figures_of, metrics_of
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.metrics import CATALOGUE
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, TopicStatus

_TABLES = (FlowStatus, TopicStatus, PartitionStatus, ReplicatorStatus)


@pytest.mark.parametrize("status", _TABLES)
def test_every_column_has_a_title_and_every_title_a_column(status: type[Any]) -> None:
    """A figure that is declared with a title and shown nowhere was forgotten in one of the lists."""
    titled = {name for name, figure in figures_of(status).items() if figure.title}
    assert titled == {*status.CLI_COLUMNS, *status.WEB_COLUMNS}
    assert set(status.WEB_WIDE) <= set(status.WEB_COLUMNS)


@pytest.mark.parametrize("status", [*_TABLES, FlowGroups])
def test_every_metric_of_a_field_is_in_the_catalogue_once(status: type[Any]) -> None:
    """With the labels of its status class."""
    metrics = metrics_of(status)
    assert len({metric.name for metric in metrics.values()}) == len(metrics)
    assert len({CATALOGUE[metric.name].labels for metric in metrics.values()}) == 1


@pytest.mark.parametrize("status", [PartitionStatus, ReplicatorStatus])
def test_keys_of_lists_are_fields(status: type[Any]) -> None:
    """Tools read them."""
    assert set(status.JSON_KEYS) <= {field.name for field in fields(status)}
