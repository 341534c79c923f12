"""A Kubernetes cluster of three nodes, brokers outside of it, records that keep coming, and mirror-ray as docs say.

`make kubernetes` runs these tests in a network of their own, one after the other; each leaves the system as it was.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import create_topic
from tests.support.kubernetes import addons, machine
from tests.support.kubernetes.binaries import Binaries, binaries
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.kubectl import Kubectl
from tests.support.kubernetes.nodes import Nodes
from tests.support.kubernetes.overlay import Overlay
from tests.support.kubernetes.record import Record
from tests.support.kubernetes.system import (
    BOOTSTRAP,
    NAMESPACE,
    TOPICS,
    MirrorOnKubernetes,
    east_as_a_service,
    make_brokers,
)
from tests.support.traffic import Production

#: Where the report goes; `make kubernetes` sets it. Without it, `make test` asks, which does not run these.
_REPORT = os.environ.get("KUBERNETES_REPORT")
#: The root file system of the image, as `make image-rootfs` unpacks it.
_ROOT = os.environ.get("KUBERNETES_IMAGE_ROOT", "build/image/rootfs")
#: The same image by two names: two versions.
IMAGES = ("registry.example.com/mirror-ray:0.1.0", "registry.example.com/mirror-ray:next")
_RECORDS_PER_S = 100
_RECORD = Record()

collect_ignore_glob = [] if _REPORT else ["test_*.py"]


@pytest.fixture(scope="session")
def programs() -> Binaries:
    """The programs of the cluster."""
    return binaries()


@pytest.fixture(scope="session")
def record(request: pytest.FixtureRequest, programs: Binaries) -> Iterator[Record]:
    """The report, which says what failed, too."""
    yield _RECORD
    if _REPORT:
        _RECORD.write(Path(_REPORT), programs.versions, tests=request.session.testscollected)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what was done, and what was not so."""
    _RECORD.done += report.when == "call"
    if report.failed:
        _RECORD.failed(report.nodeid.rpartition("::")[2])


@pytest.fixture(scope="session")
def control_plane(programs: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane."""
    with ControlPlane(programs, tmp_path_factory.mktemp("control-plane")) as control_plane:
        yield control_plane


@pytest.fixture(scope="session")
def admin(programs: Binaries, control_plane: ControlPlane) -> Kubectl:
    """Kubectl of the cluster's administrator."""
    return Kubectl(programs.path("kubectl"), control_plane.admin_kubeconfig)


@pytest.fixture(scope="session")
def nodes(programs: Binaries, control_plane: ControlPlane, admin: Kubectl) -> Iterator[Nodes]:
    """Three nodes, with DNS and the KubeRay operator on them."""
    directory = control_plane.directory
    own = dict.fromkeys(IMAGES, Path(_ROOT))
    with Nodes(control_plane, own | dict(addons.images(programs, directory / "images"))) as nodes:
        for node in machine.NODES:
            admin.wait_for("Ready", f"node/{node}")
        addons.install_dns(admin, {BOOTSTRAP["west"]: machine.OUTSIDE[1]})
        addons.install_kuberay(admin, programs, directory)
        addons.install_prometheus_definitions(admin, programs)
        admin.within("kube-system").wait_for("Available", "deployment/coredns")
        admin.within(addons.KUBERAY_NAMESPACE).wait_for("Available", "deployment/kuberay-operator")
        yield nodes


@pytest.fixture(scope="session")
def passwords() -> dict[str, str]:
    """Those of mirror-ray, by cluster."""
    return {name: secrets.token_hex(16) for name in BOOTSTRAP}


@pytest.fixture(scope="session")
def brokers(control_plane: ControlPlane, passwords: dict[str, str]) -> Iterator[dict[str, DevCluster]]:
    """The clusters east and west, outside of Kubernetes. The network is made with the control plane."""
    addresses = zip(BOOTSTRAP, machine.OUTSIDE, strict=True)
    made = {name: make_brokers(name, address, passwords[name]) for name, address in addresses}
    with made["east"], made["west"]:
        for topic, partitions in TOPICS.items():
            # Half of the records are a year old.
            create_topic(made["east"], topic, partitions, {"retention.ms": "-1"})
        yield made


@pytest.fixture(scope="session")
def load(brokers: dict[str, DevCluster]) -> Iterator[None]:
    """Records that keep coming."""
    config = brokers["east"].confluent_config()
    orders, payments = (Production(config, topic, number, _RECORDS_PER_S) for topic, number in TOPICS.items())
    with orders, payments:
        yield


@pytest.fixture(scope="session")
def installed(
    admin: Kubectl,
    nodes: Nodes,
    brokers: dict[str, DevCluster],
    passwords: dict[str, str],
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> MirrorOnKubernetes:
    """Namespace, secrets and overlay are made, nothing is applied yet."""
    directory = tmp_path_factory.mktemp("user")
    mirror = MirrorOnKubernetes(
        kubectl=admin.within(NAMESPACE),
        overlay=Overlay(directory / "deploy"),
        east=brokers["east"],
        west=brokers["west"],
        passwords=passwords,
    )
    east_as_a_service(admin)
    mirror.make_namespace()
    mirror.make_secrets(directory / "secrets", control_plane.pki)
    mirror.overlay.set_components(["monitoring", "spark"])
    return mirror


@pytest.fixture(scope="session")
def mirror(installed: MirrorOnKubernetes, record: Record, load: None) -> MirrorOnKubernetes:
    """The system as it runs, after `kubectl apply -k`."""
    chapter = "Installed"
    with record.step(chapter, "`kubectl apply -k`: every object is taken by the API") as step:
        step.saw(f"{len(installed.apply().splitlines())} objects")
    with record.step(chapter, "the head's pod is ready") as step:
        installed.kubectl.wait_for("Ready", "pod", "-l", "ray.io/node-type=head", timeout_s=600)
    with record.step(chapter, "the RayJob has succeeded") as step:
        if (tries := installed.wait_job()) > 1:
            step.saw(f"handed in {tries} times: brokers were slow to answer on this machine")
    with record.step(chapter, "the autoscaler has added the second worker, for `replicators: 2`"):
        installed.wait_workers(2)
    with record.step(chapter, "every record is compared") as step:
        step.saw(f"{installed.compare().copied} records, none lost, none doubled")
    return installed
