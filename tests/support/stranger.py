"""Another user of this machine, who wants to know what a system keeps, and to run code in it. Needs root.

Run as a program it gives itself up to that user, tries everything, and prints what has worked, as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest

from mirror_ray import own_ray
from mirror_ray.own_ray import OwnRay
from tests.support.processes import family

STRANGER = 65_534

needs_a_second_user = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

_SERVICES = ("core_worker", "gcs_service", "node_manager")
#: Its definition does not come with Ray's Python package.
_OBJECT_MANAGER = ("/ray.rpc.ObjectManagerService/Push", "/ray.rpc.ObjectManagerService/Pull")
_REFUSED = ("UNAUTHENTICATED", "UNIMPLEMENTED")
#: The agent has to start before it answers.
_ANSWERS_WITHIN_S = 30.0


def what_a_stranger_can(own: OwnRay) -> list[str]:
    """What another user can read, move, connect to or call of a system in a Ray of its own: nothing, it should be.

    Every file and socket below its session and in the cache, Ray's token, what the kernel tells of its processes, and
    every method of Ray's on every port that they listen on, without a token and with a wrong one.
    """
    processes = family(own)
    session, systems = Path(own.session_dir), own_ray._directory()
    paths = [session.parent.parent, session, systems, own_ray._token_path()]
    paths += [path for folder in (session, systems) for path in folder.rglob("*")]
    paths += [Path(f"/proc/{process.pid}/{kind}") for process in processes for kind in ("environ", "fd", "mem")]
    assert any(path.is_socket() for path in paths)
    listening = [(_is_agent(process), port) for process in processes for port in _ports(process)]
    agents, services = ([port for kind, port in listening if kind is is_agent] for is_agent in (True, False))
    assert len(agents) == 1
    assert len(services) > 3
    asked = {"paths": [str(path) for path in paths], "agents": agents, "services": services}
    command = [sys.executable, "-m", __name__, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def _ports(process: psutil.Process) -> list[int]:
    with suppress(psutil.NoSuchProcess):
        return [
            connection.laddr.port
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
    return []


def _is_agent(process: psutil.Process) -> bool:
    """The one for runtime environments speaks HTTP, once somebody has connected to it."""
    with suppress(psutil.NoSuchProcess):
        return any(argument.endswith(("/lazy_agent.py", "RuntimeEnvAgent")) for argument in process.cmdline())
    return False


def _try_all(paths: list[str], agents: list[int], services: list[int]) -> Iterator[str]:
    # What is imported is imported before: he may not be able to read it.
    grpc = import_module("grpc")
    methods = list(_methods())
    os.setgroups([])
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    for path in paths:
        for what, attempt in _ATTEMPTS.items():
            with suppress(OSError):
                attempt(path)
                yield f"{what} {path}"
    for token in ("", "a" * 64):
        for port in services:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield from (f"{port} {answer}" for answer in _answers(grpc, channel, token, methods))
        for port in agents:
            status = _status(port, token)
            if status not in {401, 403}:
                yield f"{port} {status}"


_ATTEMPTS: dict[str, Callable[[str], object]] = {
    "read": lambda path: Path(path).read_bytes(),
    "listed": os.listdir,
    "moved": lambda path: Path(path).rename(f"{path}.moved"),
    "removed": os.unlink,
    "connected to": lambda path: socket.socket(socket.AF_UNIX).connect(path),
}


def _methods() -> Iterator[str]:
    for service in _SERVICES:
        module = import_module(f"ray.core.generated.{service}_pb2")
        for found in module.DESCRIPTOR.services_by_name.values():
            yield from (f"/{found.full_name}/{method.name}" for method in found.methods)
    yield from _OBJECT_MANAGER


def _headers(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")] if token else []


def _answers(grpc: Any, channel: Any, token: str, methods: Sequence[str]) -> Iterator[str]:
    """The methods that were not refused, and whether none was refused for want of a token."""
    codes = set()
    for method in methods:
        try:
            channel.unary_unary(method)(b"", timeout=_ANSWERS_WITHIN_S, metadata=_headers(token))
            yield f"answers {method}"
        except grpc.RpcError as error:
            codes.add(error.code().name)
            if error.code().name not in _REFUSED:
                yield f"{method}: {error.code().name} {error.details()}"
    if "UNAUTHENTICATED" not in codes:
        yield "asks for no token"


def _status(port: int, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWERS_WITHIN_S)
    with closing(connection):
        connection.request("POST", "/get_or_create_runtime_env", b"", dict(_headers(token)))
        return connection.getresponse().status


if __name__ == "__main__":
    print(json.dumps(list(_try_all(**json.loads(sys.argv[1])))))  # noqa: T201 - a program's answer
