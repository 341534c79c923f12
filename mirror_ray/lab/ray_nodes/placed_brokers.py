"""Brokers of one cluster on machines of their own, each in its rack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from mirror_ray.lab.devcluster import QUICK_START, Broker, DevCluster
from mirror_ray.lab.ray_nodes.machines import LabMachine

_STARTS_WITHIN_S: Final = 900.0


class PlacedBroker(Broker):
    """A broker whose sockets are in a machine's network."""

    def __init__(self, machine: LabMachine, **more: Any) -> None:
        self._machine = machine
        super().__init__(**more)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{self._machine.address}:{self.port}"

    def program(self, main_class: str, *jvm_options: str) -> list[str]:
        """Kafka's class, run in the machine's network."""
        return self._machine.inside(*super().program(main_class, *jvm_options), processes=False)


class PlacedCluster(DevCluster):
    """A cluster of as many brokers as it is given machines and racks."""

    def __init__(self, name: str, places: Sequence[tuple[LabMachine, str]], data_dir: Path, heap: str = "384m") -> None:
        reads_near = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
        super().__init__(name, len(places), data_dir=data_dir, server_properties=reads_near)
        hosts = [machine.address for machine, _ in places]
        here = [_properties(broker) for broker in self.brokers]
        voters = [text.partition("@") for text in here[0]["controller.quorum.voters"].split(",")]
        quorum = ",".join(
            f"{node}@{host}:{place.rpartition(':')[2]}" for (node, _, place), host in zip(voters, hosts, strict=True)
        )
        self.brokers = tuple(
            PlacedBroker(
                machine,
                node_id=broker.node_id,
                port=broker.port,
                directory=broker.directory,
                heap=heap,
                jvm_options=QUICK_START,
                properties={
                    **{key: value.replace("127.0.0.1", machine.address) for key, value in properties.items()},
                    "controller.quorum.voters": quorum,
                    "broker.rack": rack,
                },
            )
            for broker, properties, (machine, rack) in zip(self.brokers, here, places, strict=True)
        )

    def start(self, timeout_s: float = _STARTS_WITHIN_S) -> Self:
        """Start all brokers: seven machines' worth of processes come up beside them."""
        return super().start(timeout_s)

    def confluent_config(self, user: str = "admin") -> dict[str, str | int | float | bool]:
        """Configuration of a confluent-kafka client."""
        return {**self.security.confluent_config(None, user), "bootstrap.servers": self.bootstrap}


def _properties(broker: Broker) -> Mapping[str, str]:
    lines = (broker.directory / "server.properties").read_text().splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}
