"""One broker process: a Java virtual machine that runs ``kafka.Kafka``."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from mirror_ray.jars.maven import kafka_program
from mirror_ray.lab.devcluster.guard import guarded
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import writing

_POLL_S = 0.02

#: ``jvm_options`` for a broker that starts in half the time and is slower afterwards: for tests, not for benchmarks.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: How many lines of its log are shown of a broker that does not start.
_LAST_LINES: Final = 30
#: As log4j's layout of Kafka writes the level: ``[time] ERROR ...``.
_ERROR_LINE: Final = re.compile(r"\b(ERROR|FATAL)\b")


class Broker:
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
        directory: Path,
        properties: Mapping[str, str],
        heap: str = "512m",
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.node_id = node_id
        self.port = port
        self.directory = directory
        self.log_path = directory / "server.log"
        self._properties_path = directory / "server.properties"
        self._jvm_options = (f"-Xmx{heap}", *jvm_options)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        properties = {**properties, "log.dirs": str(directory / "data")}
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id; None while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether the process exists; a suspended one does."""
        return self.pid is not None

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

    def start(self, timeout_s: float = 60.0) -> None:
        """Start it, unless it runs, and wait until it serves; raises MirrorError with the end of its log if not."""
        self.launch()
        self.wait_started(timeout_s)

    def launch(self) -> None:
        """Start the process and return at once; `wait_started` waits until it serves. Does nothing when it runs."""
        if self.running:
            return
        program = self.program("kafka.Kafka", *self._jvm_options, "-Djava.awt.headless=true")
        command = guarded([*program, str(self._properties_path)])
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            # A session of its own: Ctrl-C in the terminal is ours to handle.
            self._process = subprocess.Popen(  # noqa: S603 - Kafka's own class, whose arguments are ours
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait_started(self, timeout_s: float = 60.0) -> None:
        """Wait until the broker is unfenced and serves. Raises as `start` does."""
        deadline = time.monotonic() + timeout_s
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            text = b""
            while True:
                ended = not self.running
                text = text[-len(self.started_line) :] + log.read()
                if self.started_line in text:
                    return
                if ended or time.monotonic() > deadline:
                    what = "ended while it started" if ended else f"does not serve after {timeout_s:g} s"
                    raise MirrorError(f"broker {self.node_id} {what}; see {self.log_path}:\n{self._log_excerpt()}")
                time.sleep(_POLL_S)

    def _log_excerpt(self) -> str:
        """Of the log since the last start: the lines of errors, and the last ones."""
        lines = self.log_path.read_bytes()[self._log_start :].decode(errors="replace").splitlines()
        errors = [line for line in lines[:-_LAST_LINES] if _ERROR_LINE.search(line)]
        return "\n".join([*errors[:_LAST_LINES], *lines[-_LAST_LINES:]])

    def stop(self, timeout_s: float = 10.0) -> None:
        """End it in good order (SIGTERM), or by SIGKILL if that takes longer than ``timeout_s``."""
        self.terminate()
        self.wait_stopped(timeout_s)

    def terminate(self) -> None:
        """Send SIGTERM and return at once; `wait_stopped` waits for the end."""
        self.resume()
        self._signal(signal.SIGTERM)

    def wait_stopped(self, timeout_s: float = 10.0) -> None:
        """Wait until it has ended; kill it after ``timeout_s``."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def restart(self) -> None:
        """Stop it in good order and start it again, with the same ports and data."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End it without warning (SIGKILL)."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def suspend(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it after `suspend` (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
