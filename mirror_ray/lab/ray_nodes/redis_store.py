"""A Redis in which Ray's head keeps its state: on a machine of its own, by TLS and a password."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.devcluster.certificates import CertificateAuthority
from mirror_ray.lab.ray_nodes.machines import LabMachine
from mirror_ray.model.errors import MirrorError

_PORT: Final = 6380


def start_redis(machine: LabMachine, directory: Path, stack: ExitStack) -> Mapping[str, str]:
    """Start it; returns what Ray's head needs in its environment. It keeps nothing on disk."""
    if shutil.which("redis-server") is None:
        raise MirrorError("redis-server is missing: apt-get install redis-server")
    authority = CertificateAuthority(directory / "redis-tls")
    pem = str(authority.keystore("redis", "PEM"))
    password = secrets.token_hex(16)
    options = {
        "port": "0",
        "tls-port": str(_PORT),
        "bind": machine.address,
        "tls-cert-file": pem,
        "tls-key-file": pem,
        "tls-ca-cert-file": str(authority.certificate_path),
        "tls-auth-clients": "no",
        "requirepass": password,
        "save": "",
        "dir": str(directory),
    }
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    log = directory / "redis.log"
    with log.open("a") as output:
        started = subprocess.Popen(  # noqa: S603 - Redis, with our options
            machine.inside("redis-server", *words), stdout=output, stderr=output, start_new_session=True
        )
    stack.callback(started.kill)
    wait_until(lambda: "Ready to accept" in log.read_text(), 30, "Redis accepts connections", every_s=0.2)
    return {
        "RAY_REDIS_ADDRESS": f"rediss://{machine.address}:{_PORT}",
        "RAY_REDIS_PASSWORD": password,
        "RAY_REDIS_CA_CERT": str(authority.certificate_path),
        "RAY_external_storage_namespace": "mirror-ray",
    }
