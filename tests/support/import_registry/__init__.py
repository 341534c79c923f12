"""A registry whose modes, contexts and ids are those of Confluent's, which Apicurio's has not: for IMPORT above all."""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from mirror_ray.lab.devcluster.ports import free_port
from mirror_ray.lab.devcluster.process import GuardedProcess
from tests.support.registry_faults import FAULTS_PATH, REQUESTS_PATH

_ROOT = Path(__file__).parents[3]


class ImportRegistry(GuardedProcess):
    """In a process of its own, on a free port of loopback that stays the same; a context manager.

    What is registered stays over `stop`, `kill` and `start`. Faults and counts don't.
    """

    def __init__(self, name: str = "import", *, user_info: str = "") -> None:
        """``user_info``: ``user:password`` that every request has to show."""
        self._temporary = tempfile.TemporaryDirectory(prefix=f"registry-{name}-", ignore_cleanup_errors=True)
        self.dir = Path(self._temporary.name)
        super().__init__(f"the schema registry {name}", self.dir / "registry.log")
        self.port, self._user_info = free_port(), user_info

    @property
    def url(self) -> str:
        """As ``schema.registry.url`` has it."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 30.0) -> Self:
        """Start it, unless it runs, and wait until it answers."""
        if not self.running:
            arguments = [str(self.port), str(self.dir / "journal"), *filter(None, [self._user_info])]
            self.run([sys.executable, "-m", f"{__name__}.server", *arguments], directory=_ROOT)
        self.wait_ready(self._answers, timeout_s)
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._temporary.cleanup()

    def fault(self, **fault: Any) -> None:
        """From now on, until `heal` or another one; fields as `registry_faults.Fault` has."""
        self._ask("POST", FAULTS_PATH, fault)

    def heal(self) -> None:
        """No fault any more."""
        self._ask("DELETE", FAULTS_PATH)

    def requests(self, *, reset: bool = False) -> Mapping[str, Any]:
        """What it was asked since its start, or since the last ``reset``: ``total``, ``most_open``, ``by_path``."""
        counts: Mapping[str, Any] = self._ask("GET", REQUESTS_PATH)
        if reset:
            self._ask("DELETE", REQUESTS_PATH)
        return counts

    def _answers(self) -> bool:
        try:
            self._ask("GET", REQUESTS_PATH)
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30.0)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        assert response.status == http.client.OK, text
        return json.loads(text)
