"""Writers and groups at work on one side, in a drill that goes from one side to the other and back."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.failover_drill.there_and_back_report import PhaseRecords
from mirror_ray.lab.failover_drill.traffic import TimedMember, make_writers
from mirror_ray.lab.kafka_client import client_config

#: In which time groups and writers are stopped.
_STOPPED_WITHIN_S: Final = 1.0
#: How many groups are stopped at a time.
_AT_ONCE: Final = 20
_EMPTY_WITHIN_S: Final = 180.0
_POLL_S: Final = 0.3


class Phase:
    """Writers and groups at work on one side, until they are stopped or the side is killed."""

    def __init__(
        self, cluster: DevCluster, topics: Sequence[Topic], groups: Sequence[str], seed: int, prefix: str
    ) -> None:
        """``prefix``: of the writers' names, which no other writers may have."""
        self.alias = cluster.name
        #: When the last writer had stopped, or the side was killed.
        self.left_s = 0.0
        self.killed = False
        self.writers = make_writers(cluster, topics, seed, prefix)
        self.members = {name: TimedMember(cluster, name, [topic.name for topic in topics]) for name in groups}
        self._cluster = cluster

    def start(self) -> None:
        """Start to write and to process."""
        self.start_writers()
        self.start_groups()

    def start_writers(self) -> None:
        """Start to write."""
        for writer in self.writers:
            writer.start()

    def start_groups(self) -> None:
        """Start to process."""
        for member in self.members.values():
            member.start()

    def ask_to_stop(self) -> None:
        """Have all of them end soon."""
        for thread in (*self.writers, *self.members.values()):
            thread.ask_to_stop()

    def stop(self, dice: random.Random) -> None:
        """Stop all, each at a random moment: some groups have read everything then, and others have not."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            waits_s = [dice.uniform(0.0, _STOPPED_WITHIN_S) for _ in self.members]
            stopped = pool.map(_stop_after, self.members.values(), waits_s)
            time.sleep(dice.uniform(0.0, _STOPPED_WITHIN_S))
            for writer in self.writers:
                writer.stop()
            self.left_s = time.time()
            list(stopped)

    def kill(self) -> None:
        """Kill the side's brokers; what works there ends as soon as it can, which may be when they are back."""
        self.left_s, self.killed = time.time(), True
        for broker in self._cluster.brokers:
            broker.kill()
        self.ask_to_stop()

    def come_back(self) -> None:
        """Start the brokers again, and wait until nobody is at work there: writers still write what they have.

        Members that could not leave their groups are in them until their sessions end.
        """
        self._cluster.start()
        for thread in (*self.writers, *self.members.values()):
            thread.stop()
        admin = AdminClient(client_config(self._cluster))

        def are_empty() -> bool:
            found = admin.describe_consumer_groups(list(self.members))
            return all(group.result().state == ConsumerGroupState.EMPTY for group in found.values())

        wait_until(are_empty, _EMPTY_WITHIN_S, f"groups have no members on {self.alias}", every_s=_POLL_S)

    def processed(self, group: str) -> PhaseRecords:
        """What a group has processed here."""
        member = self.members[group]
        records = [record for _, record in member.processed]
        return PhaseRecords(list(zip(records, member.times_s, strict=True)), self.left_s if self.killed else None)


def _stop_after(member: TimedMember, seconds: float) -> None:
    time.sleep(seconds)
    member.stop()
