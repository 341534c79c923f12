"""What happens to nodes, one thing after the other; after each everything has to go on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from mirror_ray.lab.ray_nodes.findings import Finding
from mirror_ray.lab.ray_nodes.machines import LabMachine
from mirror_ray.lab.ray_nodes.ray_cluster import BIN, DASHBOARD_PORT
from mirror_ray.lab.ray_nodes.stand import Stand, frozen

#: What is measured without a fault.
_MEASURED_S = 20.0
_HELD_S = 60.0


def placement(stand: Stand) -> Finding:
    """Replicators run where their labels are, and read the replica that is next to them."""
    begin = stand.regions.sent_bytes(stand.follower)
    leaders = [stand.regions.sent_bytes(machine) for machine in stand.leaders]
    stand.watch.mark()
    time.sleep(_MEASURED_S)
    nearest = (stand.regions.sent_bytes(stand.follower) - begin) / _MEASURED_S
    far = sum(stand.regions.sent_bytes(m) - b for m, b in zip(stand.leaders, leaders, strict=True)) / _MEASURED_S
    nodes = stand.nodes_of_replicators()
    notes = [
        f"replicators on {', '.join(nodes)}; far1 has room, and none of them",
        f"the follower next to them sent {nearest / 1e3:,.0f} kB/s",
        f"the leaders sent {far / 1e3:,.0f} kB/s, to their followers and writers above all",
    ]
    problems = [] if set(nodes) == {"near1", "near2"} else [f"replicators run on {', '.join(nodes)}"]
    return Finding(
        name="nothing",
        fault="`placement.labels = ray.io/availability-region=near`, `A.consumer.client.rack = near`.",
        held_s=_MEASURED_S,
        hit_s={},
        spared_s=stand.watch.standstills_s(),
        recovery_s=0.0,
        notes=notes,
        problems=problems,
    )


def job_submitted(stand: Stand) -> Finding:
    """A machine of the other region that is no node of Ray's submits a job: it has an address, the token and a file."""
    laptop = stand.regions.machine("laptop", 2)
    directory = stand.config.parent / "job"
    directory.mkdir()
    shutil.copy(stand.config, directory / "mm2.properties")
    address = f"http://{stand.head.address}:{DASHBOARD_PORT}"
    submit = (str(BIN / "ray"), "job", "submit", "--address", address, "--working-dir", str(directory), "--")
    up = "python -m mirror_ray up mm2.properties --detach --dry-run && python -m mirror_ray status"
    stand.say("job submitted: from a machine that is no node")
    done = laptop.run(*submit, "sh", "-c", up, environment=stand.ray.environment)
    laptop.kill()
    works = done.returncode == 0 and "unchanged" in done.stdout and "A->B" in done.stdout
    return Finding(
        name="job submitted from elsewhere",
        fault=f"`ray job submit --address {address} --working-dir DIR -- sh -c '{up}'`, in region far.",
        held_s=None,
        hit_s={},
        spared_s={},
        recovery_s=0.0,
        notes=[f"it ended with {done.returncode}"],
        problems=[] if works else [f"it ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}"],
    )


def node_lost(stand: Stand) -> Finding:
    """All processes of a node are killed at once; it comes back when everything goes on."""
    victim = stand.machines["near2"]

    @contextmanager
    def lost() -> Iterator[None]:
        victim.kill()
        yield

    def mend() -> list[str]:
        stand.switch_on("near2")
        return ["the other node takes all partitions over; a replicator comes up when the node is back"]

    return _measured(
        stand, "node lost", "`kill -9` of all processes of node near2.", victim, lost(), held_s=None, after=mend
    )


def node_frozen(stand: Stand) -> Finding:
    """All processes of a node stand still for a minute."""
    victim = stand.machines["near2"]
    fault = "SIGSTOP of all processes of node near2 for a minute, then SIGCONT."
    return _measured(stand, "node frozen", fault, victim, frozen(victim))


def node_cut_off(stand: Stand) -> Finding:
    """A node reaches nobody for a minute, and nobody reaches it."""
    victim = stand.machines["near2"]
    fault = "For a minute every packet from and to node near2 is lost: its replicator reaches neither Ray nor Kafka."
    return _measured(stand, "node cut off", fault, victim, stand.regions.cut(victim))


def head_unreachable(stand: Stand) -> Finding:
    """A node and the head don't reach each other for a minute; both reach Kafka."""
    victim = stand.machines["near2"]
    fault = "For a minute every packet between node near2 and the head is lost; its replicator reaches all brokers."
    return _measured(stand, "node cut off from the head", fault, victim, stand.regions.cut(victim, [stand.head]))


def regions_apart(stand: Stand) -> Finding:
    """The regions don't reach each other for a minute."""
    fault = "For a minute every packet between the regions is lost: nobody near reaches a leader of the source."
    return _measured(stand, "regions cut apart", fault, None, stand.regions.cut_between())


def head_lost(stand: Stand) -> Finding:
    """The head's machine is lost, and comes back: its state is in Redis."""
    before = stand.pids()
    notes: list[str] = []

    @contextmanager
    def lost() -> Iterator[None]:
        stand.head.kill()
        yield

    def mend() -> list[str]:
        begin_s = time.monotonic()
        stand.switch_on("head")
        stand.start_head(with_store=True)
        notes.append(f"the head answers {time.monotonic() - begin_s:.0f} s after its machine was switched on again")
        stand.wait_for("the coordinator answers", lambda: bool(stand.replicators()), 300)
        notes.append(f"the coordinator answers {time.monotonic() - begin_s:.0f} s after that")
        adopted = sorted(set(before) & set(stand.pids()))
        notes.append(f"{len(adopted)} of {len(before)} replicators were adopted, with the processes that they had")
        return notes

    fault = "`kill -9` of all processes of the head; a machine of the same address comes up, with the same Redis."
    return _measured(stand, "head lost, with Redis", fault, None, lost(), held_s=None, after=mend)


def head_and_store_lost(stand: Stand) -> Finding:
    """The head is lost with all that Ray knew: the system is started again from its state topics."""
    begin_s = time.monotonic()

    @contextmanager
    def lost() -> Iterator[None]:
        stand.redis.kill()
        stand.head.kill()
        yield

    def mend() -> list[str]:
        stand.switch_on("head")
        stand.start_head(with_store=False)
        answered_s = time.monotonic() - begin_s
        stand.ray.wait_for(stand.head, 4)
        joined_s = time.monotonic() - begin_s
        stand.up()
        return [
            f"a new Ray answered after {answered_s:.0f} s",
            f"its nodes were back after {joined_s:.0f} s: they ended by themselves, and were started again",
            f"`mirror-ray up` with the same file had ended after {time.monotonic() - begin_s:.0f} s",
        ]

    fault = "`kill -9` of the head and of Redis; a new head without a store, then `mirror-ray up` with the same file."
    return _measured(stand, "head lost, without Redis", fault, None, lost(), held_s=None, after=mend)


def _measured(
    stand: Stand,
    name: str,
    fault: str,
    victim: LabMachine | None,
    happening: AbstractContextManager[None],
    *,
    held_s: float | None = _HELD_S,
    after: Callable[[], list[str]] | None = None,
) -> Finding:
    """Let it happen, and wait until all goes on; ``after``: what an operator does about it, which returns notes."""
    stand.say(f"{name}: {fault}")
    hit = stand.remote_partitions_on(victim) if victim else set()
    notes: list[str] = []
    stand.watch.mark()
    begin_s = time.monotonic()
    with happening:
        if held_s is not None:
            time.sleep(held_s)
            notes += stand.others_during(victim, hit)
    ended_s = time.monotonic()
    if after is not None and held_s is None and victim is not None:
        # What is lost has to be replaced by the others before it is given back.
        recovery_s = stand.wait_for_arrivals() - begin_s
        standstills_s = stand.watch.standstills_s()
        notes += after()
    else:
        notes += after() if after is not None else []
        recovery_s = stand.wait_for_arrivals() - ended_s
        standstills_s = stand.watch.standstills_s()
    stand.settle()
    notes.append(f"both replicators ran again {time.monotonic() - ended_s:.0f} s after")
    stand.say(f"  stood: {_longest(standstills_s, hit)}; well after {recovery_s:.1f} s")
    return Finding(
        name=name,
        fault=fault,
        held_s=held_s,
        hit_s={key: value for key, value in standstills_s.items() if key in hit},
        spared_s={key: value for key, value in standstills_s.items() if key not in hit},
        recovery_s=recovery_s,
        notes=notes,
    )


def _longest(standstills_s: dict[str, float], hit: set[str]) -> str:
    parts = [("hit", hit & set(standstills_s)), ("others", set(standstills_s) - hit)]
    return ", ".join(f"{what} {max(standstills_s[key] for key in keys):.1f} s" for what, keys in parts if keys)


ALL = (
    placement,
    job_submitted,
    node_lost,
    node_frozen,
    node_cut_off,
    head_unreachable,
    regions_apart,
    head_lost,
    head_and_store_lost,
)
