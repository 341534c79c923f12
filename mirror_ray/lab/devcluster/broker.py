"""One broker process: a Java virtual machine that runs ``kafka.Kafka``."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from mirror_ray.jars.maven import kafka_program
from mirror_ray.lab.devcluster.ports import LOOPBACK
from mirror_ray.lab.devcluster.process import START_S, GuardedProcess
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import writing

#: ``jvm_options`` for a broker that starts in half the time and is slower afterwards: for tests, not for benchmarks.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Broker(GuardedProcess):
    """A broker (and controller) with its directory: ``server.properties``, ``server.log``, ``data``.

    Ports and data stay the same from one start to the next. The process ends with ours, however ours ends.
    """

    #: BrokerServer logs it once the controller has unfenced it and its listeners are open.
    started_line: ClassVar[bytes] = b"Transition from STARTING to STARTED"

    def __init__(
        self,
        *,
        node_id: int,
        port: int,
        host: str = LOOPBACK,
        directory: Path,
        properties: Mapping[str, str],
        heap: str = "512m",
        jvm_options: Sequence[str] = (),
    ) -> None:
        super().__init__(f"broker {node_id}", directory / "server.log")
        self.node_id = node_id
        self.port = port
        self._host = host
        self.directory = directory
        self._properties_path = directory / "server.properties"
        self._jvm_options = (f"-Xmx{heap}", *jvm_options)
        properties = {**properties, "log.dirs": str(directory / "data")}
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{self._host}:{self.port}"

    def program(self, main_class: str, *jvm_options: str) -> list[str]:
        """The command that runs one of Kafka's classes, in this broker's version."""
        return kafka_program(main_class, *jvm_options)

    def format(self, cluster_id: str, scram_credentials: Sequence[str]) -> None:
        """Prepare the data directory, once; later calls do nothing. Raises MirrorError if the storage tool refused."""
        if (self.directory / "data" / "meta.properties").exists():
            return
        command = self.program("kafka.tools.StorageTool", *QUICK_START)
        command += ["format", "--cluster-id", cluster_id, "--config", str(self._properties_path)]
        for credential in scram_credentials:
            command += ["--add-scram", credential]
        done = subprocess.run(  # noqa: S603 - Kafka's own class, whose arguments are ours
            command, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise MirrorError(f"kafka-storage could not format {self.directory}: {(done.stdout + done.stderr).strip()}")

    def start(self, timeout_s: float = START_S) -> None:
        """Start it, unless it runs, and wait until it serves; raises MirrorError with the end of its log if not."""
        self.launch()
        self.wait_started(timeout_s)

    def launch(self) -> None:
        """Start the process and return at once; `wait_started` waits until it serves. Does nothing when it runs."""
        if self.running:
            return
        self.run(
            [*self.program("kafka.Kafka", *self._jvm_options, "-Djava.awt.headless=true"), str(self._properties_path)]
        )

    def wait_started(self, timeout_s: float = START_S) -> None:
        """Wait until the broker is unfenced and serves. Raises as `start` does."""
        with self.log_path.open("rb") as log:
            log.seek(self.log_start)
            text = b""

            def started() -> bool:
                nonlocal text
                text = text[-len(self.started_line) :] + log.read()
                return self.started_line in text

            self.wait_ready(started, timeout_s)

    def restart(self) -> None:
        """Stop it in good order and start it again, with the same ports and data."""
        self.stop()
        self.start()
