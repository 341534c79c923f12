"""What the kubelet's stand-in starts a container with."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes.pod_environment import (
    MissingValueError,
    command_of,
    environment,
    expand,
    field,
    quantity,
    references,
    resource_field,
    service_links,
)
from tests.support.kubernetes.pod_images import ImageError, ImageRoot, Images, runs_as
from tests.support.kubernetes.pod_process import dropped_capabilities
from tests.support.kubernetes.pod_spec import unsupported

_NODE = {"cpu": "4", "memory": "8Gi"}
_POD: dict[str, Any] = {
    "metadata": {
        "name": "head",
        "namespace": "mirror-ray",
        "uid": "u-1",
        "labels": {"ray.io/cluster": "mirror-ray", "b": 'say "a"'},
    },
    "spec": {"nodeName": "node-1", "containers": [{"name": "c"}]},
    "status": {"podIP": "10.244.0.2", "hostIP": "10.250.0.11"},
}
_DATA = {("configMap", "settings"): {"level": "info", "port": "1"}, ("secret", "login"): {"password": "p"}}


def _of(container: dict[str, Any], given: dict[str, str] | None = None) -> dict[str, str]:
    return environment(_POD, container, given or {}, lambda kind, name: _DATA.get((kind, name)), _NODE)


@pytest.mark.parametrize(
    ("text", "number"),
    [("2", 2), ("200m", Decimal("0.2")), ("4Gi", 4 << 30), ("1536Mi", 1536 << 20), ("1e3", 1000), ("5k", 5000)],
)
def test_a_quantity_has_a_unit(text: str, number: Decimal) -> None:
    """Binary and decimal ones, and none."""
    assert quantity(text) == number


def test_a_quantity_of_no_unit_that_is_known_is_refused() -> None:
    """A quantity of no unit that is known is refused."""
    with pytest.raises(ValueError, match="4Q"):
        quantity("4Q")


@pytest.mark.parametrize(
    ("text", "expanded"), [("$(A)-$(B)", "1-$(B)"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("$A ${A} $(A", "$A ${A} $(A")]
)
def test_only_known_variables_in_parentheses_are_put_in(text: str, expanded: str) -> None:
    """As Kubernetes writes them; a shell's own stay."""
    assert expand(text, {"A": "1"}) == expanded


def test_variables_come_in_order() -> None:
    """Each may name those before it."""
    container = {
        "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "S_"}],
        "env": [
            {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "URL", "value": "$(ADDRESS):$(S_port)/$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
            {"name": "PATH", "value": "/opt:$(PATH)"},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k", "optional": True}}},
        ],
    }
    assert _of(container, {"PATH": "/bin"}) == {
        "PATH": "/opt:/bin",
        "S_level": "info",
        "S_port": "1",
        "ADDRESS": "10.244.0.2",
        "URL": "10.244.0.2:1/$(LATER)",
        "LATER": "x",
        "PASSWORD": "p",
    }
    assert references(container) == {("configMap", "settings"), ("configMap", "no"), ("secret", "login")}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"secretKeyRef": {"name": "gone", "key": "k"}}, 'secret "gone" not found'),
        ({"secretKeyRef": {"name": "login", "key": "k"}}, "couldn't find key k in secret login"),
        ({"fieldRef": {"fieldPath": "spec.hostname"}}, "unsupported fieldPath: spec.hostname"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, Any], told: str) -> None:
    """A container does not start without it."""
    with pytest.raises(MissingValueError, match=told):
        _of({"env": [{"name": "A", "valueFrom": source}]})


def test_labels_are_given_one_or_all() -> None:
    """By the downward API, escaped."""
    assert field(_POD, "metadata.labels['ray.io/cluster']") == "mirror-ray"
    assert field(_POD, "metadata.labels") == 'b="say \\"a\\""\nray.io/cluster="mirror-ray"'


@pytest.mark.parametrize(
    ("resources", "reference", "number"),
    [
        ({"limits": {"memory": "4Gi"}}, {"resource": "limits.memory"}, str(4 << 30)),
        ({"limits": {"memory": "4Gi"}}, {"resource": "limits.memory", "divisor": "1Mi"}, "4096"),
        ({"requests": {"cpu": "1200m"}}, {"resource": "requests.cpu"}, "2"),
        ({"requests": {"cpu": "1200m"}}, {"resource": "limits.cpu"}, "4"),
        ({"limits": {"cpu": "3"}}, {"resource": "requests.cpu", "divisor": "1m"}, "3000"),
    ],
)
def test_resources_are_given_in_whole_numbers(
    resources: dict[str, Any], reference: dict[str, str], number: str
) -> None:
    """Rounded up; without a limit what the node has."""
    assert resource_field({"resources": resources}, reference, _NODE) == number


def _service(namespace: str, name: str, address: str, port: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterIP": address, "ports": [port]}}


def test_services_are_named_by_variables() -> None:
    """The API's own always, the others where the pod asks for them."""
    services = [
        _service("default", "kubernetes", "10.96.0.1", {"name": "https", "port": 443}),
        _service("mirror-ray", "head-svc", "10.96.0.9", {"port": 6379}),
        _service("mirror-ray", "bare", "None", {"port": 1}),
    ]
    api = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    }
    assert service_links(services, "mirror-ray", enabled=False) == api
    assert service_links(services, "mirror-ray", enabled=True) == api | {
        "HEAD_SVC_SERVICE_HOST": "10.96.0.9",
        "HEAD_SVC_SERVICE_PORT": "6379",
        "HEAD_SVC_PORT_6379_TCP": "tcp://10.96.0.9:6379",
    }


@pytest.mark.parametrize(
    ("container", "command"),
    [
        ({}, ["tini", "--", "mirror-ray"]),
        ({"args": ["up", "$(A)"]}, ["tini", "--", "up", "1"]),
        ({"command": ["sh", "-c"]}, ["sh", "-c"]),
        ({"command": ["sh", "-c"], "args": ["ray"]}, ["sh", "-c", "ray"]),
    ],
)
def test_a_container_runs_its_own_command_or_the_images(container: dict[str, Any], command: list[str]) -> None:
    """Arguments alone keep the image's entrypoint."""
    assert command_of(container, {"Entrypoint": ["tini", "--"], "Cmd": ["mirror-ray"]}, {"A": "1"}) == command


def _image(directory: Path, user: str) -> ImageRoot:
    (directory / "etc").mkdir()
    (directory / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nray:x:1000:1001::/home/ray:/bin/sh\n")
    (directory / "etc/group").write_text("root:x:0:\nray:x:1001:\nmore:x:7:ray\n")
    return ImageRoot(directory, {"User": user})


def test_a_container_runs_as_its_pod_says_or_its_image(tmp_path: Path) -> None:
    """With the groups that both name."""
    image = _image(tmp_path, "ray")
    by_image = runs_as(image, {"spec": {}}, {})
    assert (by_image.uid, by_image.gid, by_image.groups, by_image.home) == (1000, 1001, (1001, 7), "/home/ray")
    pod = {"spec": {"securityContext": {"runAsUser": 5, "fsGroup": 9, "supplementalGroups": [8]}}}
    by_pod = runs_as(image, pod, {"securityContext": {"runAsGroup": 6}})
    assert (by_pod.uid, by_pod.gid, by_pod.groups, by_pod.home) == (5, 6, (6, 8, 9), "/")


def test_an_image_has_its_configuration_beside_it(tmp_path: Path) -> None:
    """All of it, or its variables alone."""
    root = tmp_path / "rootfs"
    assert ImageRoot.read(root).config == {}
    (tmp_path / "environment").write_text("PATH=/opt/bin:/bin\nA=b=c\n")
    assert ImageRoot.read(root).variables == {"PATH": "/opt/bin:/bin", "A": "b=c"}
    (tmp_path / "rootfs.json").write_text('{"User": "7", "Env": ["B=2"]}')
    read = ImageRoot.read(root)
    assert (read.config["User"], read.variables["B"], "PATH" in read.variables) == ("7", "2", True)


def test_an_image_that_runs_as_root_is_not_run_where_that_is_forbidden(tmp_path: Path) -> None:
    """An image that runs as root is not run where that is forbidden."""
    with pytest.raises(ImageError, match="will run as root"):
        runs_as(_image(tmp_path, ""), {"spec": {"securityContext": {"runAsNonRoot": True}}}, {})


def test_an_unknown_image_is_named(tmp_path: Path) -> None:
    """An unknown image is named."""
    root = ImageRoot(tmp_path)
    assert Images({"a": root}, None).find("a") is root
    assert Images({}, root).find("b") is root
    with pytest.raises(ImageError, match="b"):
        Images({"a": root}, None).find("b")


def test_what_a_pod_would_not_get_is_refused() -> None:
    """It would seem to have been tried."""
    init = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "first"}]
    spec = {"hostNetwork": True, "hostPID": False, "activeDeadlineSeconds": 1, "initContainers": init}
    assert unsupported(spec) == ["hostNetwork", "activeDeadlineSeconds", "restartPolicy of init container proxy"]


def test_capabilities_are_dropped() -> None:
    """All, all but some, or those that a runtime drops."""
    everything = set(range(64))
    assert set(dropped_capabilities({"capabilities": {"drop": ["ALL"]}})) == everything
    assert set(dropped_capabilities({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}})) == everything - {
        10
    }
    usual = everything - set(dropped_capabilities({}))
    assert usual >= {0, 7}
    assert not usual & {12, 21}
    assert dropped_capabilities({"privileged": True}) == []
