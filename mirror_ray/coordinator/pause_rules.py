"""Which pauses are of something that a flow has; what it has not is a slip of the operator's."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from mirror_ray.model.topic_names import illegal_name
from mirror_ray.state.schema import Pause


def unknown_scope(pause: Pause, partitions: Mapping[str, int] | None) -> str | None:
    """Why there is nothing that a pause could hold back; None: there is, or nobody can tell yet.

    ``partitions``: how many each topic of the flow has; None while they are being found.
    """
    topic, number = pause.topic, pause.partition
    why = illegal_name(topic) if topic is not None else None
    if number is not None and number < 0:
        why = f"{number} is no partition: they are numbered from 0"
    if why is not None or topic is None or partitions is None:
        return why
    if topic not in partitions:
        nearest = difflib.get_close_matches(topic, partitions, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "`mirror-ray topics` lists what it copies"
        return f"it copies no topic {topic}; {hint}"
    if number is not None and number >= partitions[topic]:
        return f"{topic} has {partitions[topic]} partitions, numbered from 0: not {number}"
    return None
