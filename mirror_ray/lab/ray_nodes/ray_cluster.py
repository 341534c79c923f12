"""One Ray over several machines, each node started by `ray start`, and started again by its machine when it ends."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.ray_nodes.machines import LabMachine
from mirror_ray.model.errors import MirrorError

BIN: Final = Path(sys.executable).parent
GCS_PORT: Final = 6379
DASHBOARD_PORT: Final = 8265
_STARTS_WITHIN_S: Final = 240.0
#: As a service manager or Kubernetes does with a node whose Ray has ended.
_AGAIN: Final = 'while :; do "$@"; sleep 1; done'
_STORE: Final = ("--object-store-memory", "80000000", "--disable-usage-stats", "--block")


class StartedNodes:
    """The nodes of one Ray. Everybody who has its token may use it."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        """Nothing is started yet."""
        self._directory, self._stack = directory, stack
        token = directory / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        home = directory / "home"
        home.mkdir(exist_ok=True)
        self.environment: dict[str, str] = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_worker_niceness": "0",
            "HOME": str(home),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "MIRROR_RAY_CACHE": str(directory / "cache"),
            # As KubeRay has it where the head's state is in Redis: for so long nodes wait for a head that is lost.
            "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
        }
        self.address = ""

    def start_head(self, machine: LabMachine, region: str, store: Mapping[str, str]) -> None:
        """Start the head, and wait until it answers; no replicator has room there. ``store``: where its state is."""
        self.address = f"{machine.address}:{GCS_PORT}"
        options = ["--head", "--port", str(GCS_PORT), "--dashboard-host", "0.0.0.0", "--num-cpus", "0"]  # noqa: S104 - the namespace is ours
        options += ["--redis-password", store["RAY_REDIS_PASSWORD"]] if store else []
        self._start(machine, region, *options, store=store)
        wait_until(lambda: bool(self.alive(machine)), _STARTS_WITHIN_S, "Ray's head answers", every_s=0.5)

    def start_worker(self, machine: LabMachine, region: str, cpus: int = 1) -> None:
        """Start a node that has room for so many replicators; it joins when it is up."""
        self._start(machine, region, "--address", self.address, "--num-cpus", str(cpus))

    def _start(self, machine: LabMachine, region: str, *options: str, store: Mapping[str, str] | None = None) -> None:
        labels = ("--labels", f"ray.io/availability-region={region}", "--node-ip-address", machine.address)
        ray = (str(BIN / "ray"), "start", *options, *labels, *_STORE)
        with (self._directory / f"{machine.name}.log").open("a") as log:
            started = subprocess.Popen(  # noqa: S603 - Ray's own command
                machine.inside("bash", "-c", _AGAIN, "bash", *ray),
                env={**os.environ, **self.environment, **(store or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(started.kill)

    def alive(self, machine: LabMachine) -> list[str]:
        """The addresses of the nodes that live, as a machine's Ray says; none where it does not answer."""
        script = (
            "import ray; ray.init(address='auto', logging_level='ERROR', log_to_driver=False);"
            "print(*[node['NodeManagerAddress'] for node in ray.nodes() if node['Alive']])"
        )
        try:
            done = machine.run(sys.executable, "-c", script, environment=self.environment, timeout_s=60)
        except MirrorError:
            return []
        return done.stdout.split() if done.returncode == 0 else []

    def wait_for(self, machine: LabMachine, nodes: int) -> float:
        """Wait until so many nodes live; returns how long that took."""
        begin_s = time.monotonic()
        wait_until(lambda: len(self.alive(machine)) == nodes, _STARTS_WITHIN_S, f"{nodes} nodes of Ray live", every_s=1)
        return time.monotonic() - begin_s

    def mirror_ray(self, machine: LabMachine, *words: str, timeout_s: float = 240.0) -> str:
        """Run a command of mirror-ray on a machine; returns what it printed. Raises MirrorError where it fails."""
        command = (sys.executable, "-m", "mirror_ray", *words)
        done = machine.run(*command, environment={**self.environment, "RAY_ADDRESS": self.address}, timeout_s=timeout_s)
        if done.returncode != 0:
            raise MirrorError(f"mirror-ray {' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout
