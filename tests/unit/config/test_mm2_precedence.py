"""Which value wins, against what MM2 4.3.0's own MirrorMakerConfig answers for the same file.

``precedence_4_3_0.txt`` holds its answers: PAIR a flow that exists, C a key of the flow's source consumer,
W a key of its worker's producer, S a key of its source connector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mirror_ray.config.fields import RawValue
from mirror_ray.config.mm2 import cluster_config, connector_config, flow_names, source_consumer_config
from mirror_ray.config.properties import parse_properties

_HERE = Path(__file__).parent
_ALIASES = ("A", "B", "C.d")
_CONNECTOR_KEYS = ("topics", "enabled", "replication.factor", "replication.policy.separator", "emit.heartbeats.enabled")


def _answers(properties: Mapping[str, RawValue]) -> Iterator[str]:
    for flow in flow_names(properties, _ALIASES):
        yield f"PAIR {flow}"
        connector = connector_config(properties, flow)
        consumer = {key: value.text for key, value in source_consumer_config(connector).items()}
        # MM2 adds these two itself; here they are the defaults of the fetch settings.
        consumer = {"auto.offset.reset": "earliest", **consumer, "enable.auto.commit": "false"}
        yield from (f"C {flow} {key}={value}" for key, value in consumer.items())
        for key, given in cluster_config(properties, flow.target).items():
            if key.startswith("producer."):
                yield f"W {flow} {key}={given.text}"
        for key, given in connector.items():
            if key in _CONNECTOR_KEYS or key.startswith("producer.override."):
                yield f"S {flow} {key}={given.text}"


def test_same_values_win_as_in_mm2() -> None:
    """Pairs, consumers, producers and connector keys are MM2's, one by one."""
    text = (_HERE / "precedence.properties").read_text()
    properties = {key: RawValue(value, key) for key, value in parse_properties(text).items()}
    expected = (_HERE / "precedence_4_3_0.txt").read_text().splitlines()
    assert sorted(_answers(properties)) == sorted(expected)
