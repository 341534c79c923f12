"""The pods that KubeRay makes of a RayCluster, and what in them is not confined."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.kubernetes.manifests import Manifest

Pod = dict[str, Any]

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def pods(cluster: Manifest) -> dict[str, Pod]:
    """A pod's spec for the head and for each group of workers, by name.

    Source: ``DefaultHeadPodTemplate``, ``BuildAutoscalerContainer`` and ``mergeAutoscalerOverrides`` of KubeRay 1.6.0,
    in ``ray-operator/controllers/ray/common/pod.go``.
    """
    spec = cluster["spec"]
    head: Pod = copy.deepcopy(spec["headGroupSpec"]["template"]["spec"])
    if spec.get("enableInTreeAutoscaling"):
        options = spec.get("autoscalerOptions", {})
        taken = {key: options[key] for key in ("resources", "securityContext", "volumeMounts") if key in options}
        head["containers"].append({"name": "autoscaler", "image": head["containers"][0]["image"], **taken})
    return {"head": head, **{group["groupName"]: group["template"]["spec"] for group in spec["workerGroupSpecs"]}}


def openings(pod: Pod) -> list[str]:
    """What a pod leaves open of Kubernetes' profile "restricted", and of more than it asks for.

    Beyond it: a root that can be written to, an account that each container can use, a secret that may be missing.
    """
    of_pod = pod.get("securityContext", {})
    found = []
    if of_pod.get("runAsNonRoot") is not True or of_pod.get("runAsUser", 0) == 0:
        found.append("may run as root")
    if of_pod.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        found.append("no seccomp profile")
    if pod.get("automountServiceAccountToken") is not False:
        found.append("an account's token in every container")
    found += [f"shares the node's: {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    for volume in pod.get("volumes", []):
        source = volume.get("secret") or volume.get("configMap")
        if source is not None and source.get("optional") is not False:
            found.append(f"{volume['name']} may be missing")
        if "hostPath" in volume:
            found.append(f"{volume['name']} is the node's")
        if "secret" in volume and volume["secret"].get("defaultMode", 0o444) & 0o7:
            found.append(f"{volume['name']} is readable to all users")
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        found += [f"{container['name']}: {opening}" for opening in _openings_of(container)]
    return found


def can_ask_kubernetes(pod: Pod) -> set[str]:
    """The containers that see the token of the pod's service account."""
    return {
        container["name"]
        for container in pod["containers"]
        if pod.get("automountServiceAccountToken") is not False
        or any(mount["mountPath"] == _SERVICE_ACCOUNT for mount in container.get("volumeMounts", []))
    }


def _openings_of(container: dict[str, Any]) -> list[str]:
    context = container.get("securityContext", {})
    capabilities = context.get("capabilities", {})
    found = []
    if context.get("readOnlyRootFilesystem") is not True:
        found.append("writes to its root")
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        found.append("may gain privileges")
    if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
        found.append("has capabilities")
    found += [f"overrides the pod's {key}" for key in ("runAsUser", "runAsNonRoot", "seccompProfile") if key in context]
    return found
