"""What the kubelet's stand-in makes of the states of a pod's containers, and of the answers to probes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kubernetes.kubelet import node_status
from tests.support.kubernetes.kubelet_api import exit_status
from tests.support.kubernetes.node_api import ApiError
from tests.support.kubernetes.pod_network import NetworkError, PodAddresses, device_of, hosts, resolver
from tests.support.kubernetes.pod_probes import ProbeState, named_port
from tests.support.kubernetes.pod_status import (
    ContainerRecord,
    conditions,
    next_back_off_s,
    phase,
    record_of,
    starts_again,
    status,
)

_POD: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def _waiting(*, before: int | None = None) -> ContainerRecord:
    last = {} if before is None else {"terminated": {"exitCode": before}}
    return ContainerRecord(name="c", image="i", state={"waiting": {}}, last_state=last)


def _running(*, ready: bool = True) -> ContainerRecord:
    return ContainerRecord(name="c", image="i", state={"running": {}}, ready=ready)


def _ended(code: int) -> ContainerRecord:
    return ContainerRecord(name="c", image="i", state={"terminated": {"exitCode": code}})


@pytest.mark.parametrize(
    ("policy", "init", "containers", "expected"),
    [
        ("Always", [], [_waiting()], "Pending"),
        ("Always", [], [_running(), _waiting()], "Pending"),
        ("Always", [], [_running()], "Running"),
        ("Always", [], [_running(), _ended(1)], "Running"),
        ("Always", [], [_ended(0)], "Running"),
        ("Always", [], [_waiting(before=1)], "Running"),
        ("OnFailure", [], [_ended(0), _ended(0)], "Succeeded"),
        ("OnFailure", [], [_ended(0), _ended(1)], "Running"),
        ("Never", [], [_ended(0), _ended(1)], "Failed"),
        ("Never", [], [_ended(1), _running()], "Running"),
        ("Never", [_ended(1)], [_waiting()], "Failed"),
        ("Always", [_ended(1)], [_waiting()], "Pending"),
        ("Always", [_running()], [_waiting()], "Pending"),
        ("Always", [_ended(0)], [_running()], "Running"),
    ],
)
def test_a_pods_phase(
    policy: str, init: list[ContainerRecord], containers: list[ContainerRecord], expected: str
) -> None:
    """By the kubelet's own rules."""
    assert phase(policy, init, containers) == expected


def test_a_pod_that_is_ended_has_failed_or_not() -> None:
    """Nothing is started again."""
    assert phase("Always", [], [_ended(0)], is_ending=True) == "Succeeded"
    assert phase("Always", [], [_ended(0), _ended(143)], is_ending=True) == "Failed"
    assert phase("Always", [_waiting()], [_waiting()], is_ending=True) == "Failed"


def _conditions(pod: dict[str, Any], containers: list[ContainerRecord], reached: str = "Running") -> dict[str, Any]:
    found = conditions(pod=pod, reached=reached, has_network=True, init=[], containers=containers)
    return {one["type"]: one for one in found}


def test_a_pod_is_ready_when_its_containers_are() -> None:
    """And says which are not."""
    found = _conditions(_POD, [_running(), _running(ready=False)])
    assert {kind: one["status"] for kind, one in found.items()} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "ContainersReady": "False",
        "Ready": "False",
    }
    assert found["Ready"]["message"] == "containers with unready status: [c]"
    ready = _conditions(_POD, [_running()])["Ready"]
    # The reason of before is taken out of the API.
    assert (ready["status"], ready["reason"]) == ("True", None)
    assert _conditions(_POD, [_ended(0)], "Succeeded")["Ready"]["reason"] == "PodCompleted"


def test_an_address_takes_the_place_of_that_before() -> None:
    """The API would take both for the pod's, and refuse a second one."""
    found = status(
        pod=_POD,
        address="10.244.0.3",
        has_network=True,
        node_address="10.250.0.11",
        started_at="2020-01-01T00:00:00Z",
        init=[],
        containers=[_running()],
    )
    assert found["podIPs"] == [{"$patch": "replace"}, {"ip": "10.244.0.3"}]
    assert (found["podIP"], found["phase"]) == ("10.244.0.3", "Running")


@pytest.mark.parametrize(("code", "again"), [(404, False), (409, False), (422, False), (429, True), (500, True)])
def test_what_the_api_refuses_for_good_is_not_asked_again(code: int, again: bool) -> None:
    """A server that is ill may be well another time."""
    assert ApiError(code, "").may_pass is again


def test_a_readiness_gate_keeps_a_pod_unready() -> None:
    """Until somebody else sets its condition."""
    pod = _POD | {"spec": {"readinessGates": [{"conditionType": "example.com/open"}]}}
    found = _conditions(pod, [_running()])
    assert (found["ContainersReady"]["status"], found["Ready"]["status"]) == ("True", "False")


def test_a_condition_keeps_the_moment_of_its_last_change() -> None:
    """And gets another when it changes."""
    before = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    pod = _POD | {"status": {"conditions": [before]}}
    assert _conditions(pod, [_running()])["Ready"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert _conditions(pod, [_running(ready=False)])["Ready"]["lastTransitionTime"] != "2020-01-01T00:00:00Z"


def test_a_container_that_fails_again_and_again_waits_longer_each_time() -> None:
    """One that ran long begins anew."""
    waits, before_s = [], 0.0
    for _ in range(8):
        wait_s, before_s = next_back_off_s(before_s, ran_s=1)
        waits.append(wait_s)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert next_back_off_s(300, ran_s=601) == (0, 10)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_the_policy_says_whether_a_container_starts_again(policy: str, code: int, again: bool) -> None:
    """With the exit code."""
    assert starts_again(policy, code) is again


@pytest.mark.parametrize(("policy", "restarts", "reached"), [("Never", 2, "Failed"), ("Always", 3, "Running")])
def test_a_container_of_a_lost_node_is_not_found_again(policy: str, restarts: int, reached: str) -> None:
    """Its pod fails, or starts it once more."""
    before = {"name": "c", "containerID": "process://1", "restartCount": 2, "state": {"running": {}}}
    pod = _POD | {"status": {"containerStatuses": [before]}}
    record = record_of(_POD["spec"]["containers"][0], pod, is_init=False, policy=policy)
    assert record.state["terminated"]["reason"] == "ContainerStatusUnknown"
    assert (record.restarts, phase(policy, [], [record])) == (restarts, reached)


def test_a_probe_holds_after_as_many_answers_as_it_asks_for() -> None:
    """In a row."""
    state = ProbeState(success_threshold=1, failure_threshold=3, holds=True)
    answers = [False, False, True, False, False, False, False, True]
    assert [state.take(success=answer) for answer in answers] == [False] * 5 + [True, False, True]
    assert state.holds is True


def test_a_port_may_be_named() -> None:
    """Among the container's ports."""
    container = {"name": "c", "ports": [{"name": "gateway", "containerPort": 8484}]}
    assert [named_port(container, port) for port in (1, "2", "gateway")] == [1, 2, 8484]
    with pytest.raises(ValueError, match="other"):
        named_port(container, "other")


def test_a_nodes_condition_keeps_the_moment_of_its_last_change() -> None:
    """A nodes condition keeps the moment of its last change."""
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    resources = {"cpu": "4", "memory": "8Gi"}
    status = node_status(name="n", address="10.0.0.1", port=10250, resources=resources, before=before)
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", "2020-01-01T00:00:00Z")
    assert status["addresses"][0] == {"type": "InternalIP", "address": "10.0.0.1"}


def test_addresses_are_given_out_once() -> None:
    """And again when their pod is gone."""
    addresses = PodAddresses("10.244.1.0/29")
    taken = [addresses.take() for _ in range(5)]
    assert taken == [f"10.244.1.{number}" for number in range(2, 7)]
    with pytest.raises(NetworkError, match="no address"):
        addresses.take()
    addresses.give_back("10.244.1.3")
    assert addresses.take() == "10.244.1.3"


def test_names_of_devices_fit_the_kernel() -> None:
    """Names of devices fit the kernel."""
    assert device_of("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9") == "pod0a1b2c3d4e5f"


def test_a_pod_asks_the_clusters_dns() -> None:
    """For names of its own namespace first."""
    text = resolver({"dnsPolicy": "ClusterFirst"}, "mirror-ray", "10.96.0.10", "cluster.local")
    assert text.splitlines() == [
        "search mirror-ray.svc.cluster.local svc.cluster.local cluster.local",
        "nameserver 10.96.0.10",
        "options ndots:5",
    ]


def test_a_pod_knows_itself_and_its_aliases() -> None:
    """A pod knows itself and its aliases."""
    pod = {"subdomain": "heads", "hostAliases": [{"ip": "203.0.113.10", "hostnames": ["east"]}]}
    lines = hosts(pod, "p", "10.244.0.2", "cluster.local", "ns").splitlines()
    assert "10.244.0.2\tp.heads.ns.svc.cluster.local\tp" in lines
    assert "203.0.113.10\teast" in lines


def test_kubectl_exec_is_told_the_exit_code() -> None:
    """Kubectl exec is told the exit code."""
    assert exit_status(0)["status"] == "Success"
    assert exit_status(3)["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
