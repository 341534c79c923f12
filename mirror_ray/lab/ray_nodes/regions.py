"""Two regions: a switch in each, machines that are plugged in, and a long way between them. Cables can be cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from mirror_ray.lab.ray_nodes.long_way import long_way
from mirror_ray.lab.ray_nodes.machines import LabMachine, run_checked

_SWITCH: Final = "switch"
#: Both ends of the way between the regions, in the near and in the far one.
_NEAR, _FAR = "near", "far"


class Regions:
    """Region 1, where this process is, and region 2, ``delay_s`` away in each direction."""

    def __init__(self, directory: Path, stack: ExitStack, delay_s: float) -> None:
        self._directory = directory
        self._stack = stack
        self._router = self._switched_on("router", "10.77.2.1")
        self._ip("link add switch type bridge", "addr add 10.77.1.1/24 dev switch", "link set switch up")
        stack.enter_context(long_way(_NEAR, _FAR, delay_s))
        self._ip(f"link set {_FAR} netns {self._router.pid}", f"link set {_NEAR} up", "route add 10.77.2.0/24 dev near")
        self._ip(
            *("link set lo up", "link add switch type bridge", "addr add 10.77.2.1/24 dev switch"),
            *("link set switch up", f"link set {_FAR} up", "route add 10.77.1.0/24 dev far"),
            inside=self._router,
        )
        for forwarding in (None, self._router):
            command = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
            run_checked(forwarding.inside(*command, processes=False) if forwarding else command)
        self._numbers: dict[str, str] = {}

    def machine(self, name: str, region: int) -> LabMachine:
        """Switch a machine on, and plug it in; one of the same name that was killed comes back with its address."""
        address = self._numbers.setdefault(name, f"10.77.{region}.{11 + len(self._numbers)}")
        machine = self._switched_on(name, address)
        switch = self._switch_of(machine)
        self._ip(f"link add {machine.device} type veth peer name eth0 netns {machine.pid}", inside=switch)
        self._ip(f"link set {machine.device} master {_SWITCH} up", inside=switch)
        self._ip(
            *("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"),
            f"route add default via 10.77.{region}.1",
            inside=machine,
        )
        return machine

    @contextmanager
    def cut(self, machine: LabMachine, others: Sequence[LabMachine] = ()) -> Iterator[None]:
        """Lose every packet from and to a machine; with ``others`` given, those between it and them alone."""
        peers = ", ".join(other.address for other in others)
        # Seen from the switch, what the machine sends comes in, and what it gets goes out.
        incoming, outgoing = (
            (f"ip daddr {{ {peers} }} drop", f"ip saddr {{ {peers} }} drop") if peers else ("drop", "drop")
        )
        with self._losing(machine.device, incoming, outgoing, inside=self._switch_of(machine)):
            yield

    @contextmanager
    def cut_between(self) -> Iterator[None]:
        """Lose every packet between the regions."""
        with self._losing(_NEAR, "drop", "drop", inside=None):
            yield

    @contextmanager
    def _losing(self, device: str, incoming: str, outgoing: str, *, inside: LabMachine | None) -> Iterator[None]:
        table = "".join(
            f'chain {hook} {{ type filter hook {hook} device "{device}" priority 0; {rule}; }}\n'
            for hook, rule in (("ingress", incoming), ("egress", outgoing))
        )
        self._nft(f"table netdev cut {{\n{table}}}\n", inside)
        try:
            yield
        finally:
            self._nft("delete table netdev cut\n", inside)

    def _nft(self, text: str, inside: LabMachine | None) -> None:
        command = ["nft", "-f", "-"]
        run_checked(inside.inside(*command, processes=False) if inside else command, text)

    def sent_bytes(self, machine: LabMachine) -> int:
        """What the machine has sent since it was switched on."""
        text = run_checked(machine.inside("cat", "/proc/net/dev", processes=False))
        (line,) = (line for line in text.splitlines() if "eth0:" in line)
        return int(line.split(":")[1].split()[8])

    def _switch_of(self, machine: LabMachine) -> LabMachine | None:
        """Where the switch of its region is; None: in our own network."""
        return self._router if machine.address.startswith("10.77.2.") else None

    def _switched_on(self, name: str, address: str) -> LabMachine:
        machine = LabMachine(name, address, self._directory / name)
        self._stack.callback(machine.kill)
        return machine

    def _ip(self, *commands: str, inside: LabMachine | None = None) -> None:
        batch = ["ip", "-batch", "-"]
        run_checked(inside.inside(*batch, processes=False) if inside else batch, "\n".join(commands))
