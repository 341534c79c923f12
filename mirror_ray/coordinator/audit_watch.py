"""Whether the audit logs have all that this system changes: else a problem, and an event at each turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror_ray.coordinator.group_watch import GroupWatch
from mirror_ray.coordinator.ports import Emit


class AuditWatch:
    """Asks the coordinator's own trails and those of the checkpoint actors."""

    def __init__(self, own: Callable[[], Mapping[str, str]], groups: GroupWatch, emit: Emit) -> None:
        """``own``: why a flow's log has not all of this process."""
        self._own, self._groups, self._emit = own, groups, emit
        self._told: dict[str, str] = {}

    def problems(self) -> Mapping[str, str]:
        """Why a log has not all that was changed, by flow."""
        found = {**self._groups.audit, **self._own()}
        for flow, why in found.items():
            if self._told.get(flow) != why:
                self._emit("warning", flow, why)
        for flow in self._told.keys() - found.keys():
            self._emit("info", flow, "the audit log is written again")
        self._told = found
        return found
