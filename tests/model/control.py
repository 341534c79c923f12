"""What coordinators do to replicators, and what is on its way between them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.offset_pair import OffsetPair
from tests.model.cast import Act, Nature
from tests.model.coordinator import Coordinator, Order
from tests.model.network import Network
from tests.model.replicator import Replicator


class Control(Network):
    """One coordinator after the other, or two at once; all of them hear all reports."""

    def __init__(self, nature: Nature) -> None:
        super().__init__(nature)
        #: Replicators that a coordinator believes to be lost.
        self.buried: set[int] = set()
        self.coordinators: list[Coordinator] = []
        self.orders: list[Order] = []
        self.reports: list[tuple[int, PartitionReport]] = []
        #: The epoch in which each partition was in the trouble that was answered last.
        self.answered: dict[int, int] = {}
        self.start_coordinator()

    def start_coordinator(self) -> None:
        """Another one; who was there before is fenced as soon as it opens the state."""
        nature = self.nature
        self.coordinators.append(
            Coordinator(
                self.state, self.sources, self.targets, nature.lease_ms, self._begun, nature.max_message_bytes,
                patient=nature.patient, careful=nature.careful, shared=nature.shared,
            )
        )  # fmt: skip

    def _begun(self, number: int, anchor: OffsetPair) -> None:
        target, judge = self.targets[number], self.judges[number]
        if target.start == target.end:
            # Whatever was there once: it is empty, and begun with.
            judge.goes_on(anchor.source_offset)
        judge.begins = anchor.source_offset

    def coordinating(self) -> list[Act]:
        """Opening the state, handing out, fencing, adopting, persisting."""
        acts: list[Act] = []
        for coordinator in self.coordinators:
            if not coordinator.opened:
                acts.append(coordinator.open)
                continue
            acts += [coordinator.flush, partial(self._compare, coordinator)]
            for number in coordinator.to_grant():
                acts += [
                    partial(self._grant, coordinator, number, to) for to in self.replicators if to not in self.buried
                ]
            acts += [partial(coordinator.fence, number, self.now_s) for number in coordinator.to_fence()]
            acts += [
                partial(coordinator.wait_is_over, n)
                for n, until_s in coordinator.waits.items()
                if until_s <= self.now_s
            ]
            acts += [
                partial(coordinator.gone, owner, seen=True)
                for owner in {owner for owner, _ in coordinator.owners.values()} - self.replicators.keys()
            ]
            acts += [
                partial(self._adopt, coordinator, replicator, number)
                for replicator in self.running()
                for number in replicator.copies
                if replicator.number not in self.buried
                and coordinator.owners.get(number, (0, 0))[0] != replicator.number
            ]
        acts += [partial(self._deliver, order) for order in self.orders if self._is_heard(order.replicator)]
        return acts

    def _compare(self, coordinator: Coordinator) -> None:
        """A connection to a replicator was made anew: it says what it holds, and so what it does not."""
        for number, (owner, epoch) in list(coordinator.owners.items()):
            holder = self.replicators.get(owner)
            ordered = any(
                (order.replicator, order.assignment.partition.partition, order.assignment.epoch)
                == (owner, number, epoch)
                for order in self.orders
            )
            if holder is not None and holder.runs and number not in holder.copies and not ordered:
                coordinator.disown(number, free=True)

    def _is_heard(self, replicator: int) -> bool:
        return replicator not in self.replicators or self.replicators[replicator].runs

    def _grant(self, coordinator: Coordinator, number: int, replicator: int) -> None:
        order = coordinator.grant(number, replicator)
        if order is not None:
            self.orders.append(order)

    def _deliver(self, order: Order) -> None:
        self.orders.remove(order)
        if order.replicator in self.replicators:
            self.replicators[order.replicator].assign(order.assignment, order.state_id)

    def _adopt(self, coordinator: Coordinator, replicator: Replicator, number: int) -> None:
        epoch = replicator.copies[number].assignment.epoch
        if not coordinator.adopt(replicator.number, number, epoch) and not coordinator.fenced:
            # Nobody has handed it out like that: taken back.
            replicator.drop(number)

    def give_up(self, coordinator: Coordinator, replicator: int) -> None:
        """Believe that a replicator is lost, which it may not be."""
        self.buried.add(replicator)
        coordinator.gone(replicator, seen=False)

    def move(self, coordinator: Coordinator, number: int) -> None:
        """Take a partition back from its owner; what is not acknowledged by now has an unknown outcome."""
        holder = self.replicators.get(coordinator.owners[number][0])
        if holder is None or not holder.runs or coordinator.fenced:
            return
        self.orders = [
            order
            for order in self.orders
            if (order.replicator, order.assignment.partition.partition) != (holder.number, number)
        ]
        if number in holder.copies:
            copy = holder.copies[number]
            self._check(copy.report())
            settled = copy.complete
            coordinator.hear(holder.number, replace(copy.report(), settled=settled))
            holder.drop(number)
        coordinator.disown(number, free=True)

    def reporting(self) -> list[Act]:
        """Reports going out and coming in."""
        acts: list[Act] = [
            partial(self._report, replicator)
            for replicator in self.running()
            if replicator.copies or replicator.given_up
        ]
        if self.reports:
            acts.append(self._hear)
        return acts

    def _report(self, replicator: Replicator) -> None:
        for report in replicator.report():
            self._check(report)
            self.reports.append((replicator.number, report))
        for number, epoch in replicator.given_up:
            for coordinator in self.coordinators:
                if coordinator.owners.get(number) == (replicator.number, epoch):
                    coordinator.disown(number, free=True)
        replicator.given_up.clear()

    def _hear(self) -> None:
        replicator, report = self.reports.pop(0)
        for coordinator in self.coordinators:
            coordinator.hear(replicator, report)

    def _check(self, report: PartitionReport) -> None:
        number = report.partition.partition
        current = report.epoch > self.answered.get(number, 0)
        if current and number not in self.wrongs and not self.done[number] & {"target_unclean", "target_recreated"}:
            self.judges[number].pair(report.anchor)
