"""Replicators, coordinators and brokers in any order of events, with a fault at any step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mirror_ray.kafka.produce import HIGHEST_VERSION, LOWEST_VERSION
from mirror_ray.replication.commit_groups import GROUP_BYTES
from tests.model import steps
from tests.model.cast import Act, Nature
from tests.model.conftest import machine_settings
from tests.model.ending import check, come_to_rest, holder
from tests.model.network import NOT_ENOUGH_REPLICAS
from tests.model.replicator import Replicator
from tests.model.requests import Spoilt
from tests.model.sending import Wiring
from tests.model.world import World

small = st.integers(0, 7)
numbers = st.integers(0, 1)
wirings = st.builds(
    Wiring,
    version=st.sampled_from([HIGHEST_VERSION, 12, LOWEST_VERSION]),
    group_bytes=st.sampled_from([GROUP_BYTES, 250, 0]),
    most_requests=st.sampled_from([1 << 30, 2, 1]),
    max_request_bytes=st.sampled_from([1 << 20, 150]),
)
#: What may be done to a world's logs, besides what may happen in each.
FAULTS = [
    "cleaned",
    "removed",
    "truncated",
    "unclean",
    "emptied",
    "compacted",
    "foreign",
    "recreated",
    "source_recreated",
    "refused",
    "state",
]
#: Where a process is stopped: anywhere, when it has composed requests, when its lease has allowed them.
WHERE = ["anywhere", "composed", "allowed"]
#: Two faults, or three, meet in a world: what is noted of a log when the one has been answered must not outlive it.
_MOST_FAULTS = 3


class Mirror(RuleBasedStateMachine):
    """One flow of two partitions, two replicators at a time, up to two coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Nature())
        self.faults: list[str] = []
        self.answers: list[int] = []

    @initialize(
        faults=st.sets(st.sampled_from(FAULTS), max_size=_MOST_FAULTS),
        replicated=st.booleans(),
        large=st.booleans(),
        shared=st.booleans(),
        rounds=st.integers(0, 6),
        answers=st.lists(small, max_size=3),
        wiring=wirings,
    )
    def begin(
        self,
        faults: set[str],
        replicated: bool,
        large: bool,
        shared: bool,
        rounds: int,
        answers: list[int],
        wiring: Wiring,
    ) -> None:
        """A world of one nature, in which ``rounds`` went well."""
        # A topic that others write to can't be told from one that is begun with once the state is gone.
        self.answers = answers
        self.faults = sorted(faults - {"state"} if shared else faults)
        keys = 5 if "cleaned" in faults else None
        room = 1 << 20 if large else 90
        if "recreated" in faults:
            # Without topic ids nobody tells the old topic from the new one.
            wiring = replace(wiring, version=HIGHEST_VERSION)
        nature = Nature(keys=keys, replicated=replicated, max_message_bytes=room, shared=shared, wiring=wiring)
        self.world = World(nature)
        for source in self.world.sources:
            for size in (3, 1, 5, 2, 4):
                source.append(size, self.world.timestamp(old=size != 2))
        self.go_on(rounds=rounds, busy=True)

    def teardown(self) -> None:
        """Nothing fails any more: all is copied, or what stopped it is shown; answered, it goes on."""
        come_to_rest(self.world)
        check(self.world)
        for which in self.answers:
            answered = [self.world.resolve(number, which) for number in range(len(self.world.sources))]
            if any(answered):
                steps.tally["answered"] += sum(answered)
                come_to_rest(self.world)
                check(self.world)
        for number in range(len(self.world.sources)):
            copy = holder(self.world, number)
            steps.tally["records copied"] += len(self.world.judges[number].history)
            steps.tally["refused" if copy is None else copy.fault.kind if copy.fault else "all copied"] += 1
        steps.tally["late requests taken, and seen"] += len(self.world.wrongs)

    def _do(self, acts: list[Act], which: int) -> None:
        if acts:
            steps.count()
            steps.events(1)
            acts[which % len(acts)]()

    # ---- what goes on by itself

    @rule(which=small)
    def coordinate(self, which: int) -> None:
        """A coordinator does something."""
        self._do(self.world.coordinating(), which)

    @rule(which=small)
    def report(self, which: int) -> None:
        """A report goes out or comes in."""
        self._do(self.world.reporting(), which)

    @rule(which=small)
    def look(self, which: int) -> None:
        """A replicator reads the state topic."""
        self._do(self.world.looks(), which)

    @rule(which=small)
    def establish(self, which: int) -> None:
        """A copy finds its place."""
        self._do(self.world.establishing(), which)

    @rule(which=small, most=st.integers(1, 4))
    def read(self, which: int, most: int) -> None:
        """A copy is fetched for."""
        self._do(self.world.reading(most), which)

    @rule(which=small, stall_s=st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0]))
    def send(self, which: int, stall_s: float) -> None:
        """What a sender has goes out; time may pass between composing and the lease's last check."""
        self._do(self.world.sending(stall_s), which)

    @rule(which=small)
    def handle(self, which: int) -> None:
        """A broker handles a request."""
        self._do(self.world.handling(), which)

    @rule(which=small, throttle_ms=st.sampled_from([0, 0, 0, 400]))
    def answer(self, which: int, throttle_ms: int) -> None:
        """An answer arrives, of a broker that throttles or not."""
        self._do(self.world.answering(throttle_ms=throttle_ms), which)

    @rule(which=small, spoilt=st.sampled_from(["corrupt", "incomplete"]))
    def spoil(self, which: int, spoilt: Spoilt) -> None:
        """An answer arrives that is not one."""
        self._do(self.world.answering(spoilt), which)

    @rule(rounds=st.integers(1, 4), busy=st.booleans())
    def go_on(self, rounds: int, busy: bool) -> None:
        """All goes well for a while, so that faults meet a flow that copies."""
        steps.count()
        steps.events(self.world.go_on(rounds, busy=busy))

    @rule(number=numbers)
    def replicate(self, number: int) -> None:
        """Followers catch up."""
        steps.count()
        self.world.targets[number].replicate()

    @rule(tenths=st.integers(1, 50))
    def pass_time(self, tenths: int) -> None:
        """Time passes."""
        steps.count()
        self.world.now_s += tenths / 10

    @rule(number=numbers, size=st.integers(1, 6), old=st.booleans(), kind=small)
    def write(self, number: int, size: int, old: bool, kind: int) -> None:
        """Records are written to the source: plainly, or in a transaction, or one is concluded."""
        steps.count()
        source, timestamp = self.world.sources[number], self.world.timestamp(old=old)
        if kind < 4 or (kind == 4 and source.open_transactions > 1):
            source.append(size, timestamp)
        elif kind == 4:
            source.begin(size, timestamp)
        elif source.open_transactions and kind == 5:
            source.go_on(size, size, timestamp)
        elif source.open_transactions:
            source.conclude(size, commit=kind == 6)

    # ---- what fails

    @rule(which=small)
    def crash(self, which: int) -> None:
        """A replicator is killed."""
        steps.count()
        self.world.crash(self._replicator(which))

    @rule(which=small, broker=numbers, sending=st.booleans())
    def freeze_or_thaw(self, which: int, broker: int, sending: bool) -> None:
        """A replicator stops, perhaps between the lease's check and the send; or goes on."""
        steps.count()
        replicator = self._replicator(which)
        if replicator.frozen:
            self.world.thaw(replicator)
        elif sending:
            self.world.freeze_sending(replicator, broker)
        else:
            replicator.frozen = True

    @rule(which=small, broker=numbers, where=st.sampled_from(WHERE), rounds=st.integers(1, 6), old=st.booleans())
    def hang(self, which: int, broker: int, where: str, rounds: int, old: bool) -> None:
        """A replicator stands still for so long that others take its partitions over, and goes on."""
        steps.count()
        replicator, world = self._replicator(which), self.world
        meanwhile = partial(self._take_over, replicator, rounds, old)
        if replicator.frozen:
            return
        if where == "composed" and broker in replicator.sending.waiting:
            if world.stall(replicator, broker, meanwhile):
                return
        elif where == "allowed":
            world.freeze_sending(replicator, broker)
        replicator.frozen = True
        meanwhile()
        world.thaw(replicator)

    def _take_over(self, replicator: Replicator, rounds: int, old: bool) -> None:
        for coordinator in self.world.coordinators:
            if coordinator.opened:
                self.world.give_up(coordinator, replicator.number)
        self.world.spawn()
        self.go_on(rounds=1, busy=True)
        self.world.now_s += 5
        self.go_on(rounds=rounds, busy=True)
        if old:
            for target in self.world.targets:
                target.forget(self.world.now_ms)

    @rule(which=small, broker=numbers, for_good=st.booleans())
    def lose_connection(self, which: int, broker: int, for_good: bool) -> None:
        """A connection breaks, and the next attempt may not reach the broker."""
        replicator = self._replicator(which)
        if replicator.runs and broker in replicator.connections:
            steps.count()
            if for_good:
                replicator.sending.unreachable.add(broker)
            self.world.lose_connection(replicator, broker)

    @rule(which=small)
    def refuse(self, which: int) -> None:
        """A broker refuses a batch for a reason that passes, and not the next one."""
        self._do(self.world.handling(NOT_ENOUGH_REPLICAS), which)

    @rule(which=small)
    def vanish(self, which: int) -> None:
        """What a broker had of a lost connection is never handled."""
        if self.world.orphans:
            steps.count()
            del self.world.orphans[which % len(self.world.orphans)]

    @rule(broker=numbers)
    def restart_broker(self, broker: int) -> None:
        """A target broker is killed and comes back."""
        steps.count()
        self.world.restart_broker(broker)

    @rule(number=numbers)
    def forget(self, number: int) -> None:
        """The check that runs every ten minutes."""
        steps.count()
        self.world.targets[number].forget(self.world.now_ms)

    @rule(number=numbers, back=st.integers(0, 6))
    def move_leader(self, number: int, back: int) -> None:
        """Another broker leads a target partition."""
        steps.count()
        self.world.move_leader(number, self.world.targets[number].end - back)

    @rule(number=numbers)
    def move_source_leader(self, number: int) -> None:
        """Another broker leads a source partition."""
        steps.count()
        self.world.sources[number].lead()

    @rule(which=small, number=numbers)
    def move(self, which: int, number: int) -> None:
        """A partition is to go elsewhere."""
        coordinator = self.world.coordinators[which % len(self.world.coordinators)]
        if number in coordinator.owners:
            steps.count()
            self.world.move(coordinator, number)

    @rule(which=small)
    def give_up(self, which: int) -> None:
        """A coordinator believes that a replicator is lost."""
        coordinator = self.world.coordinators[which % len(self.world.coordinators)]
        owners = sorted({owner for owner, _ in coordinator.owners.values()} - self.world.buried)
        if owners and coordinator.opened:
            steps.count()
            self.world.give_up(coordinator, owners[which % len(owners)])
            self.world.spawn()

    @rule(which=small)
    def change_coordinator(self, which: int) -> None:
        """A coordinator is killed, or a second one is started."""
        steps.count()
        coordinators = self.world.coordinators
        if len(coordinators) > 1 or which % 2:
            del coordinators[which % len(coordinators)]
        if len(coordinators) < 2:
            self.world.start_coordinator()

    # ---- what is done to logs, in worlds of that nature

    @precondition(lambda self: self.faults)
    @rule(number=numbers, depth=st.integers(0, 12), which=small)
    def harm(self, number: int, depth: int, which: int) -> None:
        """One of the world's own faults."""
        steps.count()
        self.world.harm(self.faults[which % len(self.faults)], number, depth)

    @precondition(lambda self: self.faults)
    @rule(number=numbers, which=small, rounds=st.integers(0, 4))
    def resolve(self, number: int, which: int, rounds: int) -> None:
        """Somebody answers a partition's trouble, and it goes on for a while."""
        if self.world.resolve(number, which):
            steps.tally["answered"] += 1
            self.go_on(rounds=rounds, busy=True)

    @precondition(lambda self: self.world.nature.shared)
    @rule(number=numbers, size=st.integers(1, 4))
    def others_write(self, number: int, size: int) -> None:
        """Records of others in a topic that is declared shared."""
        steps.count()
        self.world.targets[number].write([b"another's"] * size, self.world.now_ms)

    def _replicator(self, which: int) -> Replicator:
        lives = sorted(self.world.replicators)
        return self.world.replicators[lives[which % len(lives)]]


TestMirror = Mirror.TestCase
TestMirror.settings = machine_settings()
