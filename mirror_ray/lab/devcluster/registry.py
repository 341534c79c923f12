"""A schema registry on this machine: Apicurio Registry, by the API of Confluent's."""

from __future__ import annotations

import atexit
import http.client
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from mirror_ray.jars.archives import APICURIO, ensure_archive
from mirror_ray.jars.maven import java_command
from mirror_ray.lab.devcluster.ports import free_port
from mirror_ray.lab.devcluster.process import START_S, GuardedProcess
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import writing

_API: Final = "/apis/ccompat/v7"
#: The first of a kind is slow: its parser is loaded.
_REGISTER_S: Final = 60.0

#: It answers requests by the dozen here; what compiling well and collecting in parallel would save, it does not earn.
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
#: What each of its three pools of connections to a database opens at the start: 20, unless it is told otherwise.
_POOLS: Final = ("", "blue.", "green.")
_PROPERTIES: Final = {
    # As many subjects as are in the longest list; it does not tell that there are more.
    "apicurio.ccompat.max-subjects": "1000000",
    "quarkus.http.host": "127.0.0.1",
    "quarkus.http.access-log.enabled": "false",
    **{f"apicurio.datasource.{pool}jdbc.{size}-size": "1" for pool in _POOLS for size in ("initial", "min")},
}


class ApicurioRegistry(GuardedProcess):
    """An Apicurio Registry, on loopback, with a free port that stays the same over restarts.

    A context manager that starts and closes it. What is registered stays over `stop`, `kill` and `start`; ``data_dir``
    is kept for a later one, without it the data is in a temporary directory that is removed on close. The process ends
    with ours, however ours ends.

    Of Confluent's registry it has neither contexts (``:.a:s`` is a subject like others) nor modes nor the list of all
    schemas, and ids can't be given to it. Texts come back as they were registered, byte for byte.
    """

    def __init__(
        self,
        name: str = "registry",
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        heap: str = "256m",
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.port = port or free_port()
        self._temporary = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=f"mirror-ray-{name}-", ignore_cleanup_errors=True)
            data_dir = Path(self._temporary.name)
        self.dir = data_dir.absolute()
        with writing(self.dir):
            (self.dir / "tmp").mkdir(parents=True, exist_ok=True)
        super().__init__(f"the schema registry {name}", self.dir / "registry.log")
        self._jvm_options = (f"-Xmx{heap}", *_JVM, *jvm_options)

    @property
    def url(self) -> str:
        """As ``schema.registry.url`` has it."""
        return f"http://127.0.0.1:{self.port}{_API}"

    def start(self, timeout_s: float = START_S) -> Self:
        """Start it, unless it runs, and wait until it answers; raises MirrorError with the end of its log if not."""
        self.launch()
        try:
            self.wait_started(timeout_s)
        except BaseException:
            self.kill()
            raise
        return self

    def launch(self) -> None:
        """Start the process and return at once; `wait_started` waits until it answers. Does nothing when it runs."""
        if self.running:
            return
        program = ensure_archive(APICURIO) / f"{APICURIO.artifact}-{APICURIO.version}-runner.jar"
        properties = {
            **_PROPERTIES,
            "quarkus.http.port": str(self.port),
            # Written before it is acknowledged: half a second later is the default, and lost with a killed process.
            "apicurio.datasource.url": f"jdbc:h2:file:{self.dir / 'schemas'};WRITE_DELAY=0;DB_CLOSE_ON_EXIT=FALSE",
            # What a killed process leaves behind goes with the rest of its data.
            "java.io.tmpdir": str(self.dir / "tmp"),
        }
        atexit.register(self.kill)
        settings = [f"-D{key}={value}" for key, value in properties.items()]
        self.run([java_command(), *self._jvm_options, *settings, "-jar", str(program)], directory=self.dir)

    def wait_started(self, timeout_s: float = START_S) -> None:
        """Wait until it answers. Raises as `start` does."""
        self.wait_ready(self._answers, timeout_s)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop it in good order, by SIGKILL after ``timeout_s``. Port and data stay for another `start`."""
        super().stop(timeout_s)
        atexit.unregister(self.kill)

    def close(self) -> None:
        """Stop it, and remove temporary data: then it is killed."""
        if self._temporary is None:
            self.stop()
        else:
            self.kill()
            atexit.unregister(self.kill)
            self._temporary.cleanup()

    def register(self, subject: str, schema: str, kind: str) -> int:
        """Register a schema under a subject and return its id; raises MirrorError if it is refused."""
        body = json.dumps({"schema": schema, "schemaType": kind})
        path = f"/subjects/{quote(subject, safe='')}/versions"
        with self._request("POST", path, body, timeout_s=_REGISTER_S) as answer:
            text = answer.read().decode()
            if answer.status != http.client.OK:
                raise MirrorError(f"{self.title} does not register {subject}: {answer.status} {text[:200]}")
        return int(json.loads(text)["id"])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ApicurioRegistry({self.name!r}, {self.url})"

    def _answers(self) -> bool:
        try:
            with self._request("GET", "/subjects") as answer:
                return answer.status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    @contextmanager
    def _request(
        self, method: str, path: str, body: str | None = None, *, timeout_s: float = 5.0
    ) -> Iterator[http.client.HTTPResponse]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)) as connection:
            connection.request(method, f"{_API}{path}", body, {"Content-Type": "application/json"})
            yield connection.getresponse()
