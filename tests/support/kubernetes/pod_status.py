"""A pod's phase, conditions and statuses, from what its containers do: as the kubelet works them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 10.0, 300.0


@dataclass(kw_only=True)
class ContainerRecord:
    """What is known of a container; states are in the API's own form."""

    name: str
    image: str
    state: Object = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last_state: Object = field(default_factory=dict)
    restarts: int = 0
    started: bool = False
    ready: bool = False
    container_id: str = ""

    @property
    def exit_code(self) -> int | None:
        """Of its last run, if it has ended one and is not in another."""
        ended = self.state.get("terminated") or ("waiting" in self.state and self.last_state.get("terminated")) or {}
        return ended.get("exitCode")

    @property
    def is_running(self) -> bool:
        """Whether its processes run now."""
        return "running" in self.state

    def as_api(self) -> Object:
        """Its entry in ``containerStatuses``."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image,
            "containerID": self.container_id,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        }


def time_text(moment: datetime | None = None) -> str:
    """A moment as the API writes it; without one, now."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def next_back_off_s(before_s: float, ran_s: float) -> tuple[float, float]:
    """How long a container that ended waits before it starts again, and what to give as ``before_s`` the next time.

    The first start again is at once; one that ran for ten minutes begins anew.
    """
    before_s = 0.0 if ran_s > 2 * _LONGEST_BACK_OFF_S else before_s
    following_s = min(before_s * 2, _LONGEST_BACK_OFF_S) if before_s else _FIRST_BACK_OFF_S
    return before_s, following_s


def starts_again(policy: str, exit_code: int) -> bool:
    """Whether a container that ended is started again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def record_of(container: Object, pod: Object, *, is_init: bool, policy: str) -> ContainerRecord:
    """What the API knows of a container: nothing, or how it was before its node was lost."""
    statuses = pod.get("status", {}).get("initContainerStatuses" if is_init else "containerStatuses", [])
    before: Object = next((one for one in statuses if one["name"] == container["name"]), {})
    record = ContainerRecord(name=container["name"], image=container["image"])
    if not is_init and not pod["spec"].get("initContainers"):
        record.state = {"waiting": {"reason": "ContainerCreating"}}
    if not before.get("containerID"):
        return record
    record.restarts, record.container_id = before["restartCount"], before["containerID"]
    if "terminated" in before["state"] and not starts_again(policy, before["state"]["terminated"]["exitCode"]):
        record.state = before["state"]
        return record
    lost = {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
    }
    record.state, record.last_state = {"terminated": lost}, before.get("lastState", {})
    if starts_again(policy, 137):
        record.restarts += 1
    return record


def phase(
    policy: str, init: list[ContainerRecord], containers: list[ContainerRecord], *, is_ending: bool = False
) -> str:
    """A pod's phase; one that is ending starts nothing again."""
    never_again = policy == "Never" or is_ending
    if not all(one.exit_code == 0 for one in init):
        failed = any(one.exit_code not in {None, 0} for one in init)
        return "Failed" if is_ending or (failed and never_again) else "Pending"
    codes = [one.exit_code for one in containers if not one.is_running]
    stopped = [code for code in codes if code is not None]
    if len(stopped) < len(codes) and not is_ending:
        return "Running" if stopped else "Pending"
    if len(codes) < len(containers) or (policy == "Always" and not is_ending):
        return "Running"
    if all(code == 0 for code in codes):
        return "Succeeded"
    return "Failed" if never_again else "Running"


def conditions(
    *, pod: Object, reached: str, has_network: bool, init: list[ContainerRecord], containers: list[ContainerRecord]
) -> list[Object]:
    """The conditions that the kubelet sets, each with the moment at which it changed last."""
    initialized = all(one.exit_code == 0 for one in init)
    unready = [one.name for one in containers if not one.ready]
    others = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions", [])}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", [])]
    closed = [gate for gate in gates if others.get(gate) != "True"]
    over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(reached)
    because = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    reason: Object = {"reason": over} if over else because if unready else {}
    pending: Object = {} if initialized else {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(one.name for one in init if one.exit_code != 0)}]",
    }  # fmt: skip
    gated: Object = (
        {"reason": "ReadinessGatesNotReady", "message": ", ".join(closed)} if closed and not reason else reason
    )
    found = [
        _condition("PodReadyToStartContainers", holds=has_network),
        _condition("Initialized", holds=initialized, **pending),
        _condition("ContainersReady", holds=not unready and not over, **reason),
        _condition("Ready", holds=not unready and not over and not closed, **gated),
    ]
    return [_dated(one, pod) for one in found]


def _condition(kind: str, *, holds: bool, **because: str) -> Object:
    told = {"reason": None, "message": None} | ({} if holds else because)
    return {"type": kind, "status": str(holds), **told}


def _dated(condition: Object, pod: Object) -> Object:
    """With the moment of the status before, if it has not changed since."""
    for before in pod.get("status", {}).get("conditions", []):
        if before["type"] == condition["type"] and before["status"] == condition["status"]:
            return condition | {"lastTransitionTime": before.get("lastTransitionTime") or time_text()}
    return condition | {"lastTransitionTime": time_text()}


def status(
    *,
    pod: Object,
    address: str,
    has_network: bool,
    node_address: str,
    started_at: str,
    init: list[ContainerRecord],
    containers: list[ContainerRecord],
    is_ending: bool = False,
) -> Object:
    """The part of a pod's status that is the kubelet's."""
    reached = phase(pod["spec"].get("restartPolicy", "Always"), init, containers, is_ending=is_ending)
    found: Object = {
        "phase": reached,
        "conditions": conditions(pod=pod, reached=reached, has_network=has_network, init=init, containers=containers),
        "hostIP": node_address,
        "hostIPs": _only({"ip": node_address}),
        "startTime": started_at,
        "initContainerStatuses": [one.as_api() for one in init],
        "containerStatuses": [one.as_api() for one in containers],
    }
    if address:
        found |= {"podIP": address, "podIPs": _only({"ip": address})}
    return found


def _only(item: Object) -> list[Object]:
    """In the place of what was in a list before: a strategic merge would keep it."""
    return [{"$patch": "replace"}, item]
