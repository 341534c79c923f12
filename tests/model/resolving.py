"""An operator's answers to partitions in trouble, by the real remedies; and what the judges expect from then on."""

from __future__ import annotations

from mirror_ray.coordinator.fault_rules import FaultAction
from mirror_ray.model.fault import PartitionFault
from tests.model.control import Control
from tests.model.judge import Judge
from tests.model.requests import Connection, Request


class Resolving(Control):
    """Partitions that wait for somebody to decide."""

    def resolve(self, number: int, which: int) -> bool:
        """Answer a partition's trouble by one of the policies that there are, when nothing of it is on its way."""
        target = self.targets[number]
        coordinator = next(
            (coordinator for coordinator in self.coordinators if coordinator.opened and not coordinator.fenced), None
        )
        holder = max(
            self.holders(number), key=lambda replicator: replicator.copies[number].assignment.epoch, default=None
        )
        if coordinator is None or holder is None or not holder.runs or self._is_under_way(number):
            return False
        copy = holder.copies[number]
        trouble, report = copy.fault, copy.report()
        ours = coordinator.owners.get(number) == (holder.number, report.epoch)
        if trouble is None or not ours or target.end != target.high_watermark:
            return False
        policies = coordinator.answers(number, trouble)
        self.move(coordinator, number)
        remedy = coordinator.answer(number, report, policies[which % len(policies)], self.now_ms)
        if remedy is not None:
            self.answered[number] = report.epoch
            self.wrongs.pop(number, None)
            _expect(self.judges[number], trouble, remedy)
        return remedy is not None

    def _is_under_way(self, number: int) -> bool:
        """Whether a request with a batch of the partition may still be carried out; or an order be on its way."""
        live = [
            connection for replicator in self.replicators.values() for connection in replicator.connections.values()
        ]
        requests = [request for connection in (*live, *self.orphans) for request in _requests(connection)]
        ordered = any(order.assignment.partition.partition == number for order in self.orders)
        return ordered or any(part.number == number for request in requests for part in request.parts)


def _requests(connection: Connection) -> list[Request]:
    return [*connection.unsent, *connection.sent, *connection.handled]


def _expect(judge: Judge, trouble: PartitionFault, remedy: FaultAction) -> None:
    record, gap = remedy.record, remedy.gap
    match trouble.kind:
        case "record_refused" | "source_removed" if remedy.empty_to is None:
            judge.left_out |= set(range(gap.source_from, gap.source_to))
        case "target_foreign" if remedy.empty_to is None:
            return
        case "target_truncated" if record.recounting:
            return
        case _:
            if trouble.kind == "source_recreated" or remedy.empty_to is not None:
                judge.left_out.clear()
            if trouble.kind == "source_truncated":
                judge.left_out = {offset for offset in judge.left_out if offset < record.source_offset}
            if trouble.kind in ("target_missing", "target_recreated"):
                judge.left_out.clear()
            judge.goes_on(record.source_offset)
