"""What the running system says of itself: what is not as it should be, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil

from mirror_ray.lab.chaos import schedule
from mirror_ray.lab.chaos.arrivals import ArrivalWatch
from mirror_ray.lab.chaos.topology import TOPICS
from mirror_ray.mirror import Mirror


class SystemHealth:
    """The system as it says of itself; what it says of events goes to a file, for a coordinator takes them with it."""

    def __init__(self, system: Mirror, events: Path) -> None:
        self.system = system
        self._events = events
        self._noted: set[tuple[int, str]] = set()

    def not_copying(self) -> list[str]:
        """Partitions of the run that are not copied."""
        found = {(each.flow, each.topic, each.partition): each for each in self.system.partitions()}
        wanted = [(topic.flow, topic.name, number) for topic in TOPICS for number in range(topic.partitions)]
        missing = [
            f"{flow} {topic}-{number}: not known"
            for flow, topic, number in wanted
            if (flow, topic, number) not in found
        ]
        return missing + [str(found[each]) for each in wanted if each in found and found[each].state != "copying"]

    def not_well(self, watch: ArrivalWatch, since_s: float) -> list[str]:
        """Replicators that are missing, partitions that are not copied, or nothing of which has arrived since then."""
        running = [each for each in self.system.replicators if each.state == "running" and psutil.pid_exists(each.pid)]
        missing = len(schedule.REPLICATORS) - len(running)
        return [
            *([f"{missing} replicators don't run"] if missing else []),
            *self.not_copying(),
            *(f"{each}: nothing arrives" for each in watch.silent_since(since_s)),
        ]

    def behind(self, ends: Mapping[tuple[str, str, int], int]) -> list[str]:
        """Partitions that are not copied up to there."""
        found = {(each.flow, each.topic, each.partition): each for each in self.system.partitions()}
        return [
            f"{found.get(each, each)}, to be copied to {end}"
            for each, end in ends.items()
            if each not in found or found[each].position < end
        ]

    def note_all(self) -> None:
        """Write down the events that are new, and how everything is now."""
        self.note_events()
        with self._events.open("a") as file:
            file.write("\n".join(["", str(self.system.status()), repr(self.system.partitions()), ""]))

    def note_events(self) -> None:
        """Write down the events that are new."""
        with self._events.open("a") as file:
            for event in self.system.events(200):
                if (event.time_ms, event.text) not in self._noted:
                    self._noted.add((event.time_ms, event.text))
                    file.write(f"{event.level:7}  {event}\n")
