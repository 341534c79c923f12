"""Pods that really run on the stand-in for the kubelet: in namespaces of their own, which only root can make."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.kubernetes.node_context import group_of
from tests.support.kubernetes.pod_process import MemoryGroup
from tests.support.waiting import wait_until

_TRIAL = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.support.kubernetes.pod_trial"]
_PROJECT = Path(__file__).parents[3]
_UID = f"{os.getpid():08d}-trial"
_SECRET = "/api/v1/namespaces/ns/secrets/login"
_CONFINED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def _can_make_namespaces() -> bool:
    try:
        mounts = ["unshare", "--net", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(mounts, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0 or not _can_make_namespaces(),
    reason="only root on Linux makes namespaces and mounts",
)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where the machine's own root file system, which is the image here, is not."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)
        MemoryGroup.remove_all(group_of("trial", Path(path)))


def _pod(script: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script]} | spec.pop("container", {})
    metadata = {"name": "pod-1", "namespace": "ns", "uid": _UID}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def _tried(directory: Path, pod: dict[str, Any], until: str, **given: Any) -> dict[str, Any]:
    told = {"directory": str(directory), "pod": pod, "until": until, "grace_s": 5} | given
    done = subprocess.run(
        _TRIAL, input=json.dumps(told), capture_output=True, text=True, cwd=_PROJECT, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _login(password: str) -> dict[str, Any]:
    return {_SECRET: {"data": {"password": base64.b64encode(password.encode()).decode()}}}


def test_a_confined_pod_comes_up_gets_a_changed_secret_and_ends(directory: Path) -> None:
    """As KubeRay's do: another user, a root that is read-only, volumes, a container before, a probe, SIGTERM."""
    waiting = "while :; do sleep 0.1; done"
    script = f"trap 'echo ended; exit 3' TERM; echo $FROM_IMAGE $(id -u):$(id -G); {waiting}"
    pod = _pod(
        script,
        securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1001, "runAsNonRoot": True},
        initContainers=[{"name": "before", "image": "any", "command": ["sh", "-c", "echo made > /srv/before"],
                         "volumeMounts": [{"name": "tmp", "mountPath": "/srv"}]}],
        volumes=[
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
            {"name": "login", "secret": {"secretName": "login", "defaultMode": 0o440}},
        ],
        container={
            "securityContext": _CONFINED,
            "env": [{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "readinessProbe": {"exec": {"command": ["test", "-s", "/srv/before"]}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "tmp", "mountPath": "/srv"},
                {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the container's
                {"name": "login", "mountPath": "/secrets/login", "readOnly": True},
            ],
        },
    )  # fmt: skip
    asked = [
        ["cat", "/secrets/login/password"],
        ["sh", "-c", "touch /x; touch /secrets/login/x; touch /dev/shm/y /srv/z && echo written"],
        ["sh", "-c", "hostname; echo $ADDRESS; ip -o -4 address show eth0; grep -E 'CapEff|NoNew' /proc/self/status"],
        ["sh", "-c", "cat /proc/1/comm; exit 7"],
        _login("two"),
        ["cat", "/secrets/login/password"],
    ]
    found = _tried(directory, pod, "Ready", objects=_login("one"), execute=asked, refreshed_s=2)
    secret, writes, network, first, changed = found["executed"]
    assert (secret, changed) == ([0, "one"], [0, "two"])
    assert (writes[1].count("Read-only file system"), writes[1].endswith("written\n")) == (2, True)
    assert "pod-1\n10.244.0.2\n" in network[1]
    assert "10.244.0.2/32" in network[1]
    assert "CapEff:\t0000000000000000\nNoNewPrivs:\t1" in network[1]
    assert first == [7, "sh\n"]
    assert found["log"] == "yes 1000:1000 1001\n"
    last = found["statuses"][-1]
    assert (last["phase"], last["podIP"]) == ("Failed", "10.244.0.2")
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert last["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert found["deleted"] == ["/api/v1/namespaces/ns/pods/pod-1"]
    assert found["left"] == []


def test_the_api_server_gets_logs_and_runs_commands(directory: Path) -> None:
    """Of containers that are there, with input, both outputs and the exit code."""
    script = "echo one; echo two; while :; do sleep 0.1; done"
    asked = [
        "/containerLogs/ns/pod-1/main?tailLines=1",
        "/containerLogs/ns/pod-1/main?previous=true",
        "/containerLogs/ns/pod-1/other",
        {"container": "ns/pod-1/main", "command": ["sh", "-c", "cat; echo bad >&2; exit 3"], "input": "given"},
        {"container": "ns/pod-1/main", "command": ["/no/such/program"]},
    ]
    pod = _pod(script, terminationGracePeriodSeconds=0)
    last, previous, other, ran, missing = _tried(directory, pod, "Ready", served=asked, grace_s=0)["served"]
    assert last.startswith("HTTP/1.1 200 OK")
    assert last.endswith("\r\n\r\ntwo\n")
    assert "400" in previous.splitlines()[0]
    assert other.endswith("container other is not in pod pod-1")
    assert (ran["stdout"], ran["stderr"]) == ("given", "bad\n")
    assert json.loads(ran["error"])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert "/no/such/program" in missing["stderr"]


def test_a_pod_that_was_over_before_its_node_came_back_is_not_run_again(directory: Path) -> None:
    """Nor is anything told of it; deleted it is."""
    pod = _pod("exit 0") | {"status": {"phase": "Failed"}}
    found = _tried(directory, pod, "")
    assert (found["statuses"], found["events"]) == ([], [])
    assert found["deleted"] == ["/api/v1/namespaces/ns/pods/pod-1"]


def test_a_container_tells_how_it_ended_and_why_it_did_not_begin(directory: Path) -> None:
    """With its exit code, or the program that is not there."""
    found = _tried(directory, _pod("exit 4", restartPolicy="Never"), "Failed")
    ended = found["statuses"][-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (4, "Error")
    missing = _pod("", restartPolicy="Never", container={"command": ["/no/such/program"]})
    found = _tried(directory, missing, "Failed")
    ended = found["statuses"][-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/no/such/program" in ended["message"]


@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists(), reason="no cgroups of version 1 here"
)
def test_a_container_that_takes_more_memory_than_it_may_is_killed(directory: Path) -> None:
    """And says why."""
    script = f"exec {sys.executable} -c 'bytearray(200 << 20)'"
    pod = _pod(script, restartPolicy="Never", container={"resources": {"limits": {"memory": "32Mi"}}})
    found = _tried(directory, pod, "Failed")
    ended = found["statuses"][-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_with_the_kubelet_its_pods_are_killed(directory: Path) -> None:
    """As with a node that is lost: no process, no network and no mount stays."""
    told = {"directory": str(directory), "pod": _pod("exec sleep 98765"), "until": "never", "grace_s": 5}
    trial = subprocess.Popen(_TRIAL, stdin=subprocess.PIPE, cwd=_PROJECT, text=True, stderr=subprocess.DEVNULL)
    assert trial.stdin is not None
    trial.stdin.write(json.dumps(told))
    trial.stdin.close()

    def has_begun() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return any("98765" in process.cmdline() for process in psutil.Process(trial.pid).children(recursive=True))
        return False

    try:
        wait_until(has_begun, 60, "the pod runs")
        family = psutil.Process(trial.pid).children(recursive=True)
    finally:
        trial.send_signal(signal.SIGKILL)
        trial.wait()
    wait_until(lambda: not any(process.is_running() for process in family), 20, "the pod's processes ended")
