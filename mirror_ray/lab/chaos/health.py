"""What is wrong with the running system by its own status, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from mirror_ray.lab.chaos import schedule
from mirror_ray.lab.chaos.arrivals import ArrivalWatch
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.mirror import Mirror
from mirror_ray.observe.status import PartitionStatus


class SystemHealth:
    """Asks a system for its status, and keeps its events in a file: a coordinator that is killed loses them."""

    def __init__(self, system: Mirror, events: Path) -> None:
        self.system = system
        self._events = events
        self._noted: set[tuple[int, str]] = set()

    def not_copying(self, topics: Sequence[Topic]) -> list[str]:
        """Partitions of these topics that are not copied."""
        found = self._statuses()
        wanted = [(topic.flow, topic.name, number) for topic in topics for number in range(topic.partitions)]
        missing = ["{} {}-{}: not known".format(*key) for key in wanted if key not in found]
        return missing + [str(found[key]) for key in wanted if key in found and found[key].state != "copying"]

    def unhealthy(self, topics: Sequence[Topic], watch: ArrivalWatch, since_s: float) -> list[str]:
        """Replicators that are missing, partitions that are not copied, and those with nothing new since then."""
        running = [
            replicator
            for replicator in self.system.replicators
            if replicator.state == "running" and psutil.pid_exists(replicator.pid)
        ]
        missing = len(schedule.REPLICATORS) - len(running)
        return [
            *([f"{missing} replicators don't run"] if missing else []),
            *self.not_copying(topics),
            *(f"{partition}: nothing arrives" for partition in watch.silent_since(since_s)),
        ]

    def behind(self, ends: Mapping[tuple[str, str, int], int]) -> list[str]:
        """Partitions that are not copied up to these source offsets."""
        found = self._statuses()
        return [
            f"{found.get(key, key)}, to be copied to {end}"
            for key, end in ends.items()
            if key not in found or found[key].position < end
        ]

    def write_all(self) -> None:
        """Write the new events to the file, and the status as it is now."""
        self.write_events()
        with self._events.open("a") as file:
            file.write("\n".join(["", str(self.system.status()), repr(self.system.partitions()), ""]))

    def write_events(self) -> None:
        """Write the new events to the file."""
        with self._events.open("a") as file:
            for event in self.system.events(200):
                if (event.time_ms, event.text) not in self._noted:
                    self._noted.add((event.time_ms, event.text))
                    file.write(f"{event.level:7}  {event}\n")

    def _statuses(self) -> dict[tuple[str, str, int], PartitionStatus]:
        return {(status.flow, status.topic, status.partition): status for status in self.system.partitions()}
