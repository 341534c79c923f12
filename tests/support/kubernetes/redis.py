"""A Redis outside the cluster, by TLS and with a password, which pods find by a service."""

from __future__ import annotations

import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirror_ray.lab.devcluster.process import GuardedProcess
from tests.support.debian import program
from tests.support.kubernetes.kubectl import Kubectl
from tests.support.kubernetes.machine import OUTSIDE
from tests.support.kubernetes.pki import ClusterPki
from tests.support.kubernetes.system import service_outside

_ADDRESS, _PORT = OUTSIDE[0], 6379


@contextmanager
def redis_for(kubectl: Kubectl, pki: ClusterPki, directory: Path) -> Iterator[GuardedProcess]:
    """A Redis at ``redis:6379`` of kubectl's namespace, and the secret ``mirror-ray-redis``."""
    directory.mkdir()
    identity = pki.issue("redis", "redis", hosts=["redis"])
    shutil.copyfile(pki.authority, directory / "ca.crt")
    (directory / "password").write_text(secrets.token_hex(16))
    configuration = directory / "redis.conf"
    configuration.write_text(
        f"bind {_ADDRESS}\nport 0\ntls-port {_PORT}\ntls-auth-clients no\ntls-cert-file {identity.certificate}\n"
        f"tls-key-file {identity.key}\ntls-ca-cert-file {pki.authority}\ndir {directory}\n"
        f"requirepass {(directory / 'password').read_text()}\n"
    )
    process = GuardedProcess("redis", directory / "redis.log")
    process.run([program("redis-server", "redis-server"), str(configuration)])
    try:
        process.wait_ready(_listens, 30.0)
        service_outside(kubectl, "redis", _ADDRESS, _PORT)
        files = [f"--from-file={directory / key}" for key in ("password", "ca.crt")]
        kubectl("create", "secret", "generic", "mirror-ray-redis", *files)
        yield process
    finally:
        process.stop()


def _listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_ADDRESS, _PORT)) == 0
