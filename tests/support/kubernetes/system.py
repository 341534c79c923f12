"""A mirror-ray on a Kubernetes cluster, with the brokers outside that it copies between."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion  # type: ignore[attr-defined]

from mirror_ray.lab.copy_check import hash_records
from mirror_ray.lab.devcluster import DevCluster, DevSecurity
from mirror_ray.lab.judge import CopyResult, count_differences
from mirror_ray.lab.kafka_client import TopicEnds
from tests.support.kubernetes.kubectl import Kubectl
from tests.support.kubernetes.machine import OUTSIDE
from tests.support.kubernetes.manifests import Manifest
from tests.support.kubernetes.overlay import Overlay
from tests.support.kubernetes.pki import ClusterPki
from tests.support.kubernetes.record import Step
from tests.support.traffic import Arrivals
from tests.support.waiting import wait_until

NAMESPACE = "mirror-ray"
TOPICS: Mapping[str, int] = {"orders": 4, "payments-eu": 2}
#: As the example's ``mirror.yaml`` has them.
BOOTSTRAP = {"east": "east-kafka-bootstrap.kafka", "west": "west-kafka-bootstrap.example.com"}
_USER = "mirror-ray"
_PORT = 9093
_CLUSTER = "ray.io/cluster=mirror-ray"
_HEAD = f"{_CLUSTER},ray.io/node-type=head"
_WORKERS = f"{_CLUSTER},ray.io/group=replicators"
_UP_S = 300.0
#: How often the RayJob is handed in: a machine where much runs besides may be slow to answer.
_TRIES = 4


def make_brokers(name: str, address: str, password: str) -> DevCluster:
    """A cluster of one broker, as the example expects it: SCRAM over TLS, with a user of its own for mirror-ray."""
    users = {"broker": "broker-secret", "admin": "admin-secret", _USER: password}
    security = DevSecurity(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", users=users)
    return DevCluster(name, security=security, ports=[_PORT], hosts=[address, BOOTSTRAP[name]])


def change_password(cluster: DevCluster, password: str) -> None:
    """Give mirror-ray's user another password on the brokers."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(_USER, credential, password.encode())
    admin = AdminClient(cluster.confluent_config())
    admin.alter_user_scram_credentials([wanted])[_USER].result(60)


def east_as_a_service(kubectl: Kubectl) -> None:
    """The cluster east is found by a service in a namespace of its own, whose broker is outside."""
    name, namespace = BOOTSTRAP["east"].split(".")
    kubectl("create", "namespace", namespace)
    service_outside(kubectl.within(namespace), name, OUTSIDE[0], _PORT)


def service_outside(kubectl: Kubectl, name: str, address: str, port: int) -> None:
    """A service for what listens outside of the cluster."""
    ports = [{"name": "tcp", "port": port, "protocol": "TCP"}]
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOnKubernetes:
    """What a user has at hand: kubectl in the namespace, an overlay, and both clusters of brokers."""

    kubectl: Kubectl
    overlay: Overlay
    east: DevCluster
    west: DevCluster
    passwords: dict[str, str] = field(repr=False)

    def make_namespace(self) -> None:
        """The namespace, which takes no pod that is not restricted."""
        self.kubectl("create", "namespace", NAMESPACE)
        self.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")

    def make_secrets(self, directory: Path, pki: ClusterPki) -> None:
        """The secrets, by the commands of deploy/README.md."""
        directory.mkdir(parents=True, exist_ok=True)
        gateway = pki.issue("gateway", "gateway", hosts=[f"mirror-ray-gateway.{NAMESPACE}.svc"])
        for name, cluster in (("east", self.east), ("west", self.west)):
            authority = Path(str(cluster.confluent_config()["ssl.ca.location"]))
            (directory / f"{name}-ca.crt").write_bytes(authority.read_bytes())
            (directory / f"{name}-password").write_text(self.passwords[name])
        (directory / "alice").write_text("a-token-of-alice-for-the-page")
        for secret, keys in {
            "credentials": ("east-password", "west-password"),
            "tls": ("east-ca.crt", "west-ca.crt"),
            "gateway": ("alice",),
        }.items():
            files = [f"--from-file={directory / key}" for key in keys]
            self.kubectl("create", "secret", "generic", f"mirror-ray-{secret}", *files)
        files = [f"--cert={gateway.certificate}", f"--key={gateway.key}"]
        self.kubectl("create", "secret", "tls", "mirror-ray-gateway-tls", *files)

    def apply(self) -> str:
        """`kubectl apply -k` of the overlay."""
        return self.kubectl("apply", "-k", str(self.overlay.path))

    def wait_job(self) -> int:
        """Wait until the RayJob has succeeded, and say how often it was handed in.

        One that fails, where brokers did not answer in time, is handed in again, as a user would.
        """
        for tries in range(1, _TRIES + 1):
            if self._job_status() == "SUCCEEDED":
                return tries
            said = self.kubectl.field("rayjob", "mirror-ray-up", "status", "message")
            if tries < _TRIES:
                self.kubectl("delete", "rayjob", "mirror-ray-up")
                self.apply()
        raise AssertionError(f"the RayJob has failed {_TRIES} times: {said}")

    def start_again(self) -> None:
        """Hand in the RayJob again: delete it, and apply it."""
        self.kubectl("delete", "rayjob", "mirror-ray-up")
        self.apply()
        self.wait_job()

    def _job_status(self) -> str:
        def ended() -> str | None:
            status = self.kubectl.get("rayjob", "mirror-ray-up").get("status", {})
            return status["jobStatus"] if status.get("jobDeploymentStatus") in {"Complete", "Failed"} else None

        try:
            return wait_until(ended, _UP_S, "the RayJob has ended", every_s=1.0) or ""
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubectl.story()}") from None

    def head(self) -> Manifest:
        """The pod of the head."""
        (pod,) = self._pods(_HEAD)
        return pod

    def wait_head(self, *, other_than: str) -> None:
        """Wait until another pod is the head, and ready."""

        def another() -> bool:
            heads = [pod for pod in self._pods(_HEAD) if pod["metadata"]["name"] != other_than]
            return len(heads) == 1 and is_ready(heads[0])

        try:
            wait_until(another, _UP_S, "another head is ready", every_s=1.0)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubectl.story()}") from None

    def replace(self, change: Callable[[Overlay], object]) -> None:
        """The steps of docs/upgrade.md, on Kubernetes: stop, change the overlay, start."""
        self.run("down")
        self.kubectl("delete", "rayjob", "mirror-ray-up")
        self.kubectl("delete", "raycluster", "mirror-ray")
        change(self.overlay)
        self.apply()
        self.wait_job()
        self.wait_replaced(2)

    def drain(self, node: str, selector: str, timeout_s: float = 180.0) -> None:
        """Drain a node of the pods that a selector finds: DNS and the operator have one pod each, and stay."""
        options = ["--delete-emptydir-data", f"--timeout={timeout_s:g}s", f"--pod-selector={selector}"]
        self.kubectl("drain", node, *options, timeout_s=timeout_s + 30)

    def workers(self) -> list[Manifest]:
        """The pods of replicators, without those that are ending."""
        return self._pods(_WORKERS)

    def ready_workers(self) -> list[str]:
        """The names of those that are ready."""
        return [pod["metadata"]["name"] for pod in self.workers() if is_ready(pod)]

    def wait_workers(self, count: int) -> list[str]:
        """Wait until so many workers are ready, and no more are there."""
        return self._wait_workers(f"{count} workers", lambda names: len(names) == count == len(self.workers()))

    def wait_replaced(self, count: int, gone: Collection[str] = ()) -> list[str]:
        """Wait until that many workers are ready, none of which is ``gone``.

        KubeRay and the autoscaler may both replace a pod: the one too many goes when it has been idle for so long.
        """
        return self._wait_workers(
            f"{count} other workers", lambda names: len(names) >= count and not {*names} & {*gone}
        )

    def _wait_workers(self, what: str, enough: Callable[[list[str]], bool]) -> list[str]:
        def those() -> list[str] | None:
            names = self.ready_workers()
            return names if enough(names) else None

        try:
            return wait_until(those, _UP_S, what, every_s=1.0) or []
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubectl.story()}") from None

    def run(self, *arguments: str) -> str:
        """`kubectl exec` of a command of mirror-ray on the head."""
        name = self.head()["metadata"]["name"]
        return self.kubectl("exec", name, "-c", "ray-head", "--", "mirror-ray", *arguments)

    def configure_anew(self) -> str:
        """`mirror-ray up` with the file that is mounted."""
        return self.run("up", "/etc/mirror-ray/mirror.yaml", "--detach", "--yes")

    def mounted(self, pod: str, container: str, path: str) -> str:
        """A file in a container."""
        return self.kubectl("exec", pod, "-c", container, "--", "cat", path)

    def wait_mounted(self, path: str, text: str) -> None:
        """Wait until a file that is mounted says so, in all pods of Ray."""
        places = [(self.head(), "ray-head"), *((pod, "ray-worker") for pod in self.workers())]
        for pod, container in places:
            read = partial(self.mounted, pod["metadata"]["name"], container, path)
            wait_until(lambda read=read: text in read(), 120.0, f"{path} is new", every_s=2.0)  # type: ignore[misc]

    def compare(self, timeout_s: float = _UP_S) -> CopyResult:
        """Wait until all that is there now is copied, and compare every record."""
        found = CopyResult()
        for topic, partitions in TOPICS.items():
            self._wait_copied(topic, timeout_s)
            # The copy is read first: the source, which grows, has all of it then.
            copies = hash_records(self.west, f"east.{topic}", partitions)
            for source, copy in zip(hash_records(self.east, topic, partitions), copies, strict=True):
                found += count_differences(source, copy, finished=False)
        assert found.equal, found
        assert found.copied > 0
        return found

    @contextmanager
    def watched(self, step: Step) -> Iterator[None]:
        """Note the longest time in which a partition had nothing new, and compare every record afterwards."""
        topic, partitions = next(iter(TOPICS.items()))
        remote = f"east.{topic}"
        ends = TopicEnds(self.west, remote, range(partitions)).by_partition()
        began_s = time.monotonic()
        with Arrivals(self.west.confluent_config(), remote, partitions, ends) as arrivals:
            yield
            found = self.compare()
        longest_s = arrivals.longest_s(range(partitions), began_s)
        step.saw(f"no partition stood still for longer than {longest_s:.0f} s")
        step.saw(f"{found.copied:,} records compared, none lost, none doubled")

    def _wait_copied(self, topic: str, timeout_s: float) -> None:
        partitions = range(TOPICS[topic])
        wanted = TopicEnds(self.east, topic, partitions).total()
        ends = TopicEnds(self.west, f"east.{topic}", partitions)
        wait_until(lambda: ends.total() >= wanted, timeout_s, f"{topic} is copied", every_s=1.0)

    def _pods(self, selector: str) -> list[Manifest]:
        pods = self.kubectl.find("pods", "-l", selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: Manifest) -> bool:
    """Whether a pod's condition Ready is True."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
