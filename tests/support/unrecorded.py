"""Failover, takeover and bulk translation without an audit log: for tests of what they do, not of what is kept."""

from __future__ import annotations

from functools import partial

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.failover import bulk_translation, run
from mirror_ray.failover.run import FailoverOrder, FailoverReport, OnResult
from mirror_ray.failover.running_system import RunningSystem
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.takeover import handback, takeover

translate_in_bulk = partial(bulk_translation.carry_out, audit_log=UNRECORDED)
take_over = partial(takeover.take_over, audit_log=UNRECORDED)
hand_back = partial(handback.hand_back, audit_log=UNRECORDED)


async def carry_out(
    settings: MirrorSettings, order: FailoverOrder, running: RunningSystem | None, on_result: OnResult = lambda *_: None
) -> FailoverReport:
    """As `run.carry_out`."""
    return await run.carry_out(settings, order, running, UNRECORDED, on_result)
