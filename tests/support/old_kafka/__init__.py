"""Brokers of earlier versions of Apache Kafka, from Maven as the others."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirror_ray.jars.maven import ensure_jars, kafka_program
from mirror_ray.lab.devcluster import QUICK_START, Broker
from mirror_ray.lab.devcluster.guard import guarded
from mirror_ray.lab.devcluster.ports import free_port
from tests.support.waiting import wait_until

_HERE: Final = Path(__file__).parent
#: The first version that people run without ZooKeeper.
_FIRST_KRAFT: Final = (3, 6)
_SESSION_MS: Final = 2000


def old_jars(version: str) -> Path:
    """Kafka's jars of that version, for a broker alone."""
    pom = (_HERE / "pom.xml").read_bytes().replace(b"KAFKA_VERSION", version.encode())
    return ensure_jars(f"kafka-{version}", pom=pom)


class OldBroker(Broker):
    """A broker of an earlier version."""

    def __init__(self, jars: Path, started_line: bytes, **more: object) -> None:
        self._jars, self.started_line = jars, started_line  # type: ignore[misc]
        super().__init__(**more)  # type: ignore[arg-type]

    def program(self, main_class: str, *jvm_options: str) -> list[str]:
        """With the logging that its version knows."""
        log4j = f"-Dlog4j.configuration=file:{_HERE / 'log4j.properties'}"
        return kafka_program(main_class, *jvm_options, log4j, jars=self._jars)


class OldCluster:
    """One broker of an earlier version: with ZooKeeper before Kafka 3.6, in KRaft mode from then on.

    A context manager starts and stops it. What it takes from ``DevCluster`` it has by the same names.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.number = tuple(map(int, version.split(".")))
        self.kraft = self.number >= _FIRST_KRAFT
        self._temporary = tempfile.TemporaryDirectory(prefix=f"kafka-{version}-", ignore_cleanup_errors=True)
        self.dir, self._jars = Path(self._temporary.name), old_jars(version)
        self._zookeeper: subprocess.Popen[bytes] | None = None
        port, self._second_port = free_port(), free_port()
        own = _kraft(port, self._second_port) if self.kraft else _zookeeper(port, self._second_port)
        started = Broker.started_line if self.kraft else b"[KafkaServer id=1] started"
        broker = partial(OldBroker, self._jars, started, node_id=1, port=port, directory=self.dir / "broker-1")
        self.brokers = (broker(properties={**_COMMON, **own}, heap="384m", jvm_options=QUICK_START),)

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers``."""
        return self.brokers[0].address

    def confluent_config(self) -> Mapping[str, str | int | float | bool]:
        """What a confluent-kafka client of it needs."""
        return {"bootstrap.servers": self.bootstrap}

    def __enter__(self) -> Self:
        (broker,) = self.brokers
        try:
            if self.kraft:
                broker.format("A" * 22, ())
            else:
                self._start_zookeeper()
            broker.start()
            wait_until(self._serves, 60, f"Kafka {self.version} serves")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill(self) -> None:
        """End the broker without warning (SIGKILL)."""
        self.brokers[0].kill()

    def start_again(self) -> None:
        """Start the broker after ``kill``, once ZooKeeper has given up the session of the one before it."""
        if not self.kraft:
            time.sleep(1.5 * _SESSION_MS / 1000)
        self.brokers[0].start()
        wait_until(self._serves, 60, f"Kafka {self.version} serves")

    def _serves(self) -> bool:
        """With ZooKeeper it may have started before it is the controller."""
        try:
            return AdminClient(dict(self.confluent_config())).list_topics(timeout=10).controller_id == 1
        except KafkaException:
            return False

    def close(self) -> None:
        """End all of it and remove its data."""
        self.brokers[0].kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait()
        self._temporary.cleanup()

    def _start_zookeeper(self) -> None:
        path = self.dir / "zookeeper.properties"
        settings = {
            "dataDir": str(self.dir / "zookeeper"),
            "clientPort": str(self._second_port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "tickTime": "500",
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = guarded([*self.brokers[0].program(main, "-Xmx128m", *QUICK_START), str(path)])
        with (self.dir / "zookeeper.log").open("ab") as log:
            self._zookeeper = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(lambda: _listens(self._second_port), 60, f"ZooKeeper of Kafka {self.version} listens")


_COMMON: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    # From Kafka 3.4 on; before, a broker forgets the producers of old records when it starts.
    "producer.id.expiration.check.interval.ms": "200",
}


def _zookeeper(port: int, second_port: int) -> dict[str, str]:
    return {
        "broker.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.connect": f"127.0.0.1:{second_port}",
        "zookeeper.session.timeout.ms": str(_SESSION_MS),
    }


def _kraft(port: int, second_port: int) -> dict[str, str]:
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{second_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{second_port}",
        "broker.session.timeout.ms": str(_SESSION_MS),
        "broker.heartbeat.interval.ms": "500",
    }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
