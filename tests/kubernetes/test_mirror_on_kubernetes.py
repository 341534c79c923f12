"""What users do to a mirror-ray on Kubernetes, and what happens to it there: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import secrets
from functools import partial

import pytest

from mirror_ray.lab.kafka_client import TopicEnds, create_topic
from tests.kubernetes.conftest import IMAGES
from tests.support.kafka import Message, produce
from tests.support.kubernetes.kubectl import Kubectl, KubectlError
from tests.support.kubernetes.manifests import KUBERNETES, read, spoiled
from tests.support.kubernetes.nodes import Nodes
from tests.support.kubernetes.record import Record
from tests.support.kubernetes.system import MirrorOnKubernetes, change_password
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(1200)


def test_it_is_installed(mirror: MirrorOnKubernetes, record: Record) -> None:
    """As deploy/README.md says: namespace, secrets, `kubectl apply -k`, the job succeeds, and records are copied."""
    with record.step("Installed", "`mirror-ray status` by `kubectl exec`") as step:
        step.saw(next(line for line in mirror.run("status").splitlines() if line.strip()))
    with record.step("Installed", "`mirror-ray verify 'east->west'` by `kubectl exec`"):
        mirror.run("verify", "east->west")


def test_a_pod_that_is_not_restricted_is_refused(mirror: MirrorOnKubernetes, record: Record) -> None:
    """Pod Security admission is on: the pods of ours have passed it."""
    with record.step("Admission and rights", "a pod that is not restricted") as step:
        with pytest.raises(KubectlError, match="violates PodSecurity"):
            mirror.kubectl("run", "other", "--image=other", "--restart=Never")
        step.saw("refused by Pod Security admission, which has let ours in")
    (cluster,) = read(KUBERNETES / "base" / "ray-cluster.yaml")
    misspelt = spoiled(cluster, "spec/rayVersions", "2.60.0")
    with record.step("Admission and rights", "a misspelt field in the RayCluster") as step:
        with pytest.raises(KubectlError, match="unknown field"):
            mirror.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(misspelt))
        step.saw("refused by the API's validation")


@pytest.mark.parametrize(
    ("account", "verb", "what", "allowed"),
    [
        ("default", "list", "pods", False),
        ("default", "get", "secrets", False),
        ("mirror-ray", "list", "pods", True),
        ("mirror-ray", "patch", "rayclusters.ray.io", True),
        ("mirror-ray", "get", "secrets", False),
        ("mirror-ray", "create", "pods", False),
    ],
)
def test_rights(
    mirror: MirrorOnKubernetes, record: Record, account: str, verb: str, what: str, *, allowed: bool
) -> None:
    """Pods run as an account that may do nothing; the autoscaler's, which KubeRay makes, may do what scaling needs."""
    with record.step("Admission and rights", f"may the service account {account} {verb} {what}?") as step:
        asked = f"--as=system:serviceaccount:mirror-ray:{account}"
        try:
            answer = mirror.kubectl("auth", "can-i", verb, what, asked)
        except KubectlError as error:
            answer = str(error)
        assert ("yes" in answer) == allowed, answer
        step.saw("yes" if allowed else "no")


def test_only_the_autoscaler_has_a_token_of_the_api(mirror: MirrorOnKubernetes, record: Record) -> None:
    """The coordinator beside it and the workers have none."""
    path = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    head = mirror.head()["metadata"]["name"]
    with record.step("Admission and rights", "a token of the Kubernetes API") as step:
        assert mirror.mounted(head, "autoscaler", path)
        for pod, container in ((head, "ray-head"), (mirror.ready_workers()[0], "ray-worker")):
            with pytest.raises(KubectlError, match="No such file"):
                mirror.mounted(pod, container, path)
        step.saw("the autoscaler's container has one, the coordinator's and the workers' have none")


def test_the_network_is_bounded(mirror: MirrorOnKubernetes, admin: Kubectl, record: Record) -> None:
    """The overlay's policies let through what a system needs: it runs. A stranger's pod reaches no port of the head."""
    head = mirror.head()["status"]["podIP"]
    with record.step("Network policies", "connections to the head") as step:
        for namespace, labels, port, wanted in (
            ("stranger", "app=stranger", 6379, False),
            ("stranger", "app=stranger", 8265, False),
            ("stranger", "app=stranger", 8484, False),
            ("monitoring", "app=stranger", 8484, False),
            ("monitoring", "app.kubernetes.io/name=prometheus", 8484, True),
            ("monitoring", "app.kubernetes.io/name=prometheus", 8265, False),
        ):
            kubectl = admin.within(namespace)
            if not admin.find("namespaces", f"--field-selector=metadata.name={namespace}"):
                admin("create", "namespace", namespace)
                kubectl("wait", "serviceaccount/default", "--for=create", "--timeout=60s")
            options = [f"--image={IMAGES[0]}", "--restart=Never", f"--labels={labels}", "--command", "--"]
            kubectl("run", "asking", *options, "python", "-c", _CONNECT.format(head, port))
            phase = wait_until(partial(_ended, kubectl, "asking"), 120.0, "the pod has ended", every_s=1.0)
            kubectl("delete", "pod", "asking", "--grace-period=0", "--force")
            assert (phase == "Succeeded") == wanted, (namespace, labels, port, phase)
            step.saw(f"port {port} from the namespace {namespace}, {labels}: {'let in' if wanted else 'refused'}")


#: A new pod's policies come into force a moment after it has begun.
_CONNECT = """import socket, time
for _ in range(5):
    try:
        raise SystemExit(socket.create_connection(({!r}, {}), 3).close())
    except OSError:
        time.sleep(1)
raise SystemExit(1)
"""


def _ended(kubectl: Kubectl, pod: str) -> str | None:
    phase = kubectl.field("pod", pod, "status", "phase")
    return phase if phase in {"Succeeded", "Failed"} else None


def test_replicators_are_added_and_taken_away(mirror: MirrorOnKubernetes, record: Record) -> None:
    """The autoscaler adds a pod for a third replicator, and takes it away when it has been idle for two minutes."""
    chapter = "Scaled"
    with record.step(chapter, "`mirror-ray scale 3`: a third worker is ready") as step, mirror.watched(step):
        mirror.run("scale", "3")
        mirror.wait_workers(3)
    with record.step(chapter, "`mirror-ray scale 2`: the idle worker is gone") as step, mirror.watched(step):
        mirror.run("scale", "2")
        mirror.wait_workers(2)
    mirror.run("scale", "--auto")


@pytest.mark.parametrize("how", ["in good order", "at once"])
def test_a_worker_is_deleted(mirror: MirrorOnKubernetes, record: Record, how: str) -> None:
    """KubeRay makes another one; its partitions are copied elsewhere meanwhile."""
    lost = mirror.wait_replaced(2)[0]
    options = ["--grace-period=0", "--force"] if how == "at once" else []
    with record.step("Pods lost", f"a worker's pod is deleted, {how}") as step, mirror.watched(step):
        mirror.kubectl("delete", "pod", lost, *options)
        mirror.wait_replaced(2, gone=[lost])


def test_the_head_is_deleted(mirror: MirrorOnKubernetes, record: Record) -> None:
    """Ray ends with it, and KubeRay starts it anew, empty: the RayJob is deleted and applied, and all goes on."""
    before = mirror.head()["metadata"]["name"]
    with record.step("Pods lost", "the head's pod is deleted, without Redis") as step, mirror.watched(step):
        mirror.kubectl("delete", "pod", before)
        mirror.wait_head(other_than=before)
        mirror.start_again()
        mirror.wait_replaced(2)


def test_a_node_is_drained(mirror: MirrorOnKubernetes, record: Record, nodes: Nodes) -> None:
    """A worker is evicted and comes back elsewhere; the head is held by its budget."""
    head = mirror.head()["spec"]["nodeName"]
    with record.step("Nodes drained", "the node of the head: `kubectl drain` is refused") as step:
        try:
            with pytest.raises(KubectlError, match="disruption budget"):
                mirror.drain(head, "ray.io/node-type=head", timeout_s=20)
        finally:
            mirror.kubectl("uncordon", head)
        step.saw("held by the PodDisruptionBudget mirror-ray-head")
    others = [pod["spec"]["nodeName"] for pod in mirror.workers() if pod["spec"]["nodeName"] != head]
    drained = others[0] if others else head
    with record.step("Nodes drained", "the node of a worker") as step, mirror.watched(step):
        try:
            mirror.drain(drained, "ray.io/group=replicators")
            mirror.wait_replaced(2)
            assert all(pod["spec"]["nodeName"] != drained for pod in mirror.workers())
        finally:
            mirror.kubectl("uncordon", drained)


def test_the_configuration_is_changed(mirror: MirrorOnKubernetes, record: Record) -> None:
    """The overlay is applied, pods get the new file by themselves, and `up` takes it."""
    create_topic(mirror.east, "new", 1)
    produce(mirror.east.confluent_config(), "new", [Message(b"%d" % number) for number in range(100)])
    copy = TopicEnds(mirror.west, "east.new", [0])
    title = "a topic more in `mirror.yaml`: `kubectl apply -k`, and `up` with the file that pods have got"
    with record.step("Changed", title) as step, mirror.watched(step):
        mirror.overlay.configure(lambda found: found["flows"]["east->west"]["topics"]["include"].append("new"))
        mirror.apply()
        mirror.wait_mounted("/etc/mirror-ray/mirror.yaml", "- new")
        mirror.configure_anew()
        wait_until(lambda: copy.total() == 100, 120.0, "the new topic is copied", every_s=1.0)
        step.saw("the new topic is copied")


def test_a_password_is_changed(mirror: MirrorOnKubernetes, record: Record) -> None:
    """On the brokers, and in the secret; pods get the new file by themselves, and `up` begins the flow anew with it."""
    password = secrets.token_hex(16)
    title = "another password of the cluster west, on its brokers and in the secret; `up`"
    with record.step("Changed", title) as step, mirror.watched(step):
        change_password(mirror.west, password)
        patch = {"stringData": {"west-password": password}}
        mirror.kubectl("patch", "secret", "mirror-ray-credentials", "--type=merge", f"-p={json.dumps(patch)}")
        mirror.wait_mounted("/etc/mirror-ray-secrets/credentials/west-password", password)
        mirror.configure_anew()


def test_an_upgrade(mirror: MirrorOnKubernetes, record: Record) -> None:
    """As docs/upgrade.md says: `down`, job and cluster deleted, the overlay with the new image applied."""
    with record.step("Upgraded", "the steps of [upgrade](../upgrade.md#on-kubernetes)") as step, mirror.watched(step):
        mirror.replace(lambda overlay: overlay.set_image(IMAGES[1]))
        pods = [mirror.head(), *mirror.workers()]
        assert {container["image"] for pod in pods for container in pod["spec"]["containers"]} == {IMAGES[1]}
