"""What preserved offsets exclude: everything by which the target gets other records, or records of others."""

from __future__ import annotations

from collections.abc import Iterator

from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.transforms import step_field
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.transforms.loading import load_step


def check_offsets(flow: FlowSettings) -> Iterator[tuple[str, str]]:
    """Yield a field and a sentence for each setting that can't be used together with ``offsets.mode``."""
    try:
        compile_patterns(flow.offsets.topics)
    except ValueError as error:
        yield "offsets.topics", str(error)
    if not flow.preserves_offsets:
        return
    if flow.produce.delivery_guarantee != "exactly_once":
        yield (
            "offsets.mode",
            (
                "offsets can be preserved by exactly_once alone, at_least_once doubles records: remove "
                "delivery.guarantee, or set offsets to translate"
            ),
        )
    if flow.provenance.enabled:
        yield (
            "offsets.mode",
            (
                "offsets can't be preserved where both sides write a topic under one name, as with provenance headers: "
                "turn provenance.headers.enabled off, or set offsets to translate"
            ),
        )
    for number, step in enumerate(flow.transforms.steps):
        try:
            routes = load_step(step).transform.destinations
        except ValueError:
            continue
        if routes:
            yield (
                step_field(number),
                (
                    f"{step.type} routes records to other topics, where they can't have the source's offsets: leave "
                    "these topics out of the flow, or set offsets to translate"
                ),
            )
