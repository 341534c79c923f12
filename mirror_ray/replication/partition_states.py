"""The states of a partition that is replicated, and every transition between them, as one table.

``TRANSITIONS`` maps a state and an event to the state that follows and to what is to be done then.
``PartitionReplication`` raises the events, and ``Lifecycle`` carries the instructions out. A pair that is not in the
table must not occur. ``docs/partition-states.md`` is generated from the table (``partition_states_page``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, NamedTuple


class CopyState(Enum):
    """What a partition is doing. ``text`` describes it in the documentation."""

    ESTABLISHING = "The target's log end is read, as soon as no answer is awaited any more."
    REFUSED = "As ESTABLISHING, after the target refused a batch: batches that were sent behind it do not count."
    STOPPED = "An error or a fault has stopped the partition; the target's log end is read again after a while."
    STOPPED_REFUSED = "As STOPPED, after the target refused a batch."
    UNPLACED = "Nobody fetches the partition: its fetcher and its sender are looked up by the leaders."
    REALIGNING = "Source records that the target holds already are fetched and passed over."
    RUNNING = "Records are fetched and sent."
    ASKING_SOURCE = "The source's leader is asked for the log's bounds, as soon as everything is acknowledged."
    AWAITING_DEAD_LETTERS = "Records on which a transform failed are being written to the dead letter topic."
    AWAITING_SCHEMA_IDS = (
        "It is not known yet what the schema id of the next record becomes; what lies before it is sent."
    )
    BLOCKED = "The next source batch can't be replicated: what lies before it is sent, then the partition stops."
    DRAINING = "Nothing more is fetched; what was fetched is sent."
    LEAVING = "The partition is released without a known position: only answers under way are awaited."
    REMOVED = "The partition is not assigned here any more."

    def __init__(self, text: str) -> None:
        self.text = text
        #: Whether records are fetched.
        self.fetches = self.name in {"REALIGNING", "RUNNING"}
        #: Whether the target's log end was read and fits, so that what is buffered may be sent.
        self.sends = self.fetches or self.name in {
            *("UNPLACED", "ASKING_SOURCE", "AWAITING_DEAD_LETTERS", "AWAITING_SCHEMA_IDS", "BLOCKED", "DRAINING")
        }
        #: Whether a batch was refused since the target's log end was read.
        self.refused = self.name in {"REFUSED", "STOPPED_REFUSED"}
        self.stopped = self.name in {"STOPPED", "STOPPED_REFUSED"}
        #: Whether the target's log end is to be read.
        self.reads_target = self.stopped or self.name in {"ESTABLISHING", "REFUSED"}
        #: The value in ``status``, JSON and metrics.
        self.shown: Literal["establishing", "copying", "stopped"] = (
            "copying" if self.sends else "stopped" if self.stopped else "establishing"
        )


class StateEvent(Enum):
    """What happens to a partition."""

    TARGET_END_READ = "the target's log end was read, and holds what was acknowledged"
    PLACED = "fetcher and sender were found"
    PLACED_TO_REALIGN = "fetcher and sender were found, and the target holds more than was acknowledged"
    REALIGNED = "the source position that belongs to the target's log end was found"
    END_REACHED = "the source ended before all that the target holds was passed over"
    OUT_OF_RANGE = "the source does not have the offset that was to be fetched"
    BOUNDS_FIT = "the position is within the source's log"
    BOUNDS_FIT_TO_REALIGN = "the position is within the source's log, and not all was passed over"
    CLEANED = "the source was cleaned since it was copied: its records are to be compared with the target's"
    FETCH_AGAIN = "records that were passed over have to be copied after all"
    TARGET_GROWS = "the remote topic is shared and has grown: the position follows its end"
    LEADER_MOVED = "another broker is to be fetched from"
    RECORDS_FAILED = "a transform failed on records that go to the dead letter topic"
    DEAD_LETTERS_WRITTEN = "the dead letter topic holds them"
    SCHEMA_IDS_MISSING = "a record has a schema id that is not known, or in a field that is undecided"
    SCHEMA_IDS_KNOWN = "what it lacked is known"
    SCHEMA_IDS_KNOWN_TO_REALIGN = "what it lacked is known, and not all was passed over"
    BATCH_UNUSABLE = "a fetched batch is corrupt, or holds a record that can't be copied"
    BATCH_REFUSED = "the target refused a batch"
    CONNECTION_LOST = "the batches in flight will not be answered"
    INTERRUPTED = "something failed that is expected to pass"
    FAILED = "an error that is not expected to pass soon, or a fault that only a decision resolves"
    DRAIN = "the coordinator has the partition released"
    REMOVE = "the partition was released, or somebody else has it"


class Instruction(Enum):
    """What is to be done because of a transition."""

    DROP = "give up what is buffered, and remember what was sent"
    DETACH = "take the partition from its fetcher and its sender"
    STOP_FETCHING = "take the partition from its fetcher"
    PLACE = "look up fetcher and sender"
    READ_TARGET = "read the target's log end, after a backoff"
    ASK_SOURCE = "ask the source's leader for the log's bounds"
    UPDATE_FETCH = "have the fetcher look at the partition again"


class Recovery(Enum):
    """What shows that a partition which was stopped goes on."""

    TARGET_END_READ = "the target's log end was read, and holds what was acknowledged"
    POSITION_FOUND = "it is known where copying goes on"
    SOURCE_ANSWERED = "the source's leader answered a fetch"
    COMMITTED = "the target committed a batch"
    CAUGHT_UP = "all that the source has is acknowledged"
    SCHEMA_IDS_KNOWN = "what a record lacked is known"


class Transition(NamedTuple):
    """What follows from an event in a state."""

    finish: CopyState
    instructions: tuple[Instruction, ...] = ()


class UnexpectedEventError(Exception):
    """An event came in a state that the table has no row for: the program is wrong."""


_S, _E, _I = CopyState, StateEvent, Instruction
Row = tuple[StateEvent, tuple[CopyState, ...], CopyState, tuple[Instruction, ...]]

#: A sender may have batches of the partition.
_ATTACHED = (
    *(_S.UNPLACED, _S.RUNNING, _S.ASKING_SOURCE, _S.AWAITING_DEAD_LETTERS),
    *(_S.AWAITING_SCHEMA_IDS, _S.BLOCKED),
)
_PLACED = (*_ATTACHED, _S.REALIGNING)
_READS_TARGET = (_S.ESTABLISHING, _S.REFUSED, _S.STOPPED, _S.STOPPED_REFUSED)
_ASSIGNED = (*_PLACED, *_READS_TARGET, _S.DRAINING, _S.LEAVING)
_FETCHES = (_S.REALIGNING, _S.RUNNING)
_RESTART = (_I.DROP, _I.DETACH, _I.READ_TARGET)
_LEAVE = (_I.DROP, _I.DETACH)

#: By event: the states in which it may come, the state that follows, and the instructions.
ROWS: Final[tuple[Row, ...]] = (
    # From the target's log end to a running partition.
    (_E.TARGET_END_READ, _READS_TARGET, _S.UNPLACED, (_I.PLACE,)),
    (_E.PLACED, (_S.UNPLACED,), _S.RUNNING, ()),
    (_E.PLACED_TO_REALIGN, (_S.UNPLACED,), _S.REALIGNING, ()),
    (_E.REALIGNED, (_S.REALIGNING, _S.ASKING_SOURCE), _S.RUNNING, (_I.UPDATE_FETCH,)),
    # The source.
    (_E.END_REACHED, (_S.REALIGNING,), _S.ASKING_SOURCE, (_I.ASK_SOURCE, _I.UPDATE_FETCH)),
    (_E.OUT_OF_RANGE, _FETCHES, _S.ASKING_SOURCE, (_I.ASK_SOURCE, _I.UPDATE_FETCH)),
    (_E.BOUNDS_FIT, (_S.ASKING_SOURCE,), _S.RUNNING, (_I.UPDATE_FETCH,)),
    (_E.BOUNDS_FIT_TO_REALIGN, (_S.ASKING_SOURCE,), _S.REALIGNING, (_I.UPDATE_FETCH,)),
    (_E.CLEANED, (_S.REALIGNING, _S.ASKING_SOURCE), _S.ESTABLISHING, _RESTART),
    (_E.FETCH_AGAIN, (_S.ASKING_SOURCE,), _S.ESTABLISHING, _RESTART),
    (_E.TARGET_GROWS, (_S.RUNNING,), _S.ESTABLISHING, _RESTART),
    (_E.LEADER_MOVED, _FETCHES, _S.UNPLACED, (_I.STOP_FETCHING, _I.PLACE)),
    (_E.RECORDS_FAILED, (_S.RUNNING,), _S.AWAITING_DEAD_LETTERS, (_I.UPDATE_FETCH,)),
    (_E.DEAD_LETTERS_WRITTEN, (_S.AWAITING_DEAD_LETTERS,), _S.RUNNING, (_I.UPDATE_FETCH,)),
    (_E.SCHEMA_IDS_MISSING, _FETCHES, _S.AWAITING_SCHEMA_IDS, (_I.UPDATE_FETCH,)),
    (_E.SCHEMA_IDS_KNOWN, (_S.AWAITING_SCHEMA_IDS,), _S.RUNNING, (_I.UPDATE_FETCH,)),
    (_E.SCHEMA_IDS_KNOWN_TO_REALIGN, (_S.AWAITING_SCHEMA_IDS,), _S.REALIGNING, (_I.UPDATE_FETCH,)),
    (_E.BATCH_UNUSABLE, _FETCHES, _S.BLOCKED, (_I.UPDATE_FETCH,)),
    # The target. What was in flight when a partition went back is still answered.
    (_E.BATCH_REFUSED, _ATTACHED, _S.REFUSED, _RESTART),
    (_E.BATCH_REFUSED, (_S.ESTABLISHING, _S.REFUSED), _S.REFUSED, (_I.DROP,)),
    (_E.BATCH_REFUSED, (_S.STOPPED, _S.STOPPED_REFUSED), _S.STOPPED_REFUSED, (_I.DROP,)),
    (_E.BATCH_REFUSED, (_S.DRAINING, _S.LEAVING), _S.LEAVING, _LEAVE),
    (_E.CONNECTION_LOST, (*_ATTACHED, _S.ESTABLISHING), _S.ESTABLISHING, _RESTART),
    (_E.CONNECTION_LOST, (_S.REFUSED,), _S.REFUSED, _RESTART),
    (_E.CONNECTION_LOST, (_S.STOPPED,), _S.STOPPED, _RESTART),
    (_E.CONNECTION_LOST, (_S.STOPPED_REFUSED,), _S.STOPPED_REFUSED, _RESTART),
    (_E.CONNECTION_LOST, (_S.DRAINING, _S.LEAVING), _S.LEAVING, _LEAVE),
    # Failures, whoever found them.
    (_E.INTERRUPTED, (*_FETCHES, _S.ASKING_SOURCE, _S.ESTABLISHING, _S.STOPPED), _S.ESTABLISHING, _RESTART),
    (_E.INTERRUPTED, (_S.REFUSED, _S.STOPPED_REFUSED), _S.REFUSED, _RESTART),
    (_E.INTERRUPTED, (_S.LEAVING,), _S.LEAVING, _LEAVE),
    (_E.FAILED, (*_PLACED, _S.ESTABLISHING, _S.STOPPED), _S.STOPPED, _RESTART),
    (_E.FAILED, (_S.REFUSED, _S.STOPPED_REFUSED), _S.STOPPED_REFUSED, _RESTART),
    (_E.FAILED, (_S.DRAINING, _S.LEAVING), _S.LEAVING, _LEAVE),
    # The coordinator.
    (_E.DRAIN, (*_PLACED, _S.DRAINING), _S.DRAINING, (_I.STOP_FETCHING,)),
    (_E.DRAIN, (*_READS_TARGET, _S.LEAVING), _S.LEAVING, ()),
    (_E.REMOVE, _ASSIGNED, _S.REMOVED, _LEAVE),
)

TRANSITIONS: Final[dict[tuple[CopyState, StateEvent], Transition]] = {
    (start, event): Transition(finish, instructions) for event, starts, finish, instructions in ROWS for start in starts
}

#: What shows that a fault of a kind is over; None: another error.
OVER_BY: Final[dict[str | None, frozenset[Recovery]]] = {
    "source_removed": frozenset({Recovery.SOURCE_ANSWERED}),
    "source_truncated": frozenset({Recovery.SOURCE_ANSWERED}),
    "source_recreated": frozenset({Recovery.SOURCE_ANSWERED}),
    "target_missing": frozenset({Recovery.TARGET_END_READ}),
    "target_recreated": frozenset({Recovery.TARGET_END_READ}),
    "target_truncated": frozenset({Recovery.TARGET_END_READ}),
    "target_foreign": frozenset({Recovery.TARGET_END_READ}),
    "copy_lost": frozenset({Recovery.POSITION_FOUND}),
    "record_refused": frozenset({Recovery.COMMITTED}),
    "transform_failed": frozenset({Recovery.COMMITTED, Recovery.CAUGHT_UP}),
    "schema_missing": frozenset({Recovery.SCHEMA_IDS_KNOWN, Recovery.COMMITTED, Recovery.CAUGHT_UP}),
    None: frozenset({Recovery.COMMITTED, Recovery.CAUGHT_UP}),
}


def transition(state: CopyState, event: StateEvent) -> Transition:
    """Look up what follows from ``event`` in ``state``.

    Raises:
        UnexpectedEventError: The table has no such row.
    """
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise UnexpectedEventError(f"{event.name} in state {state.name}")
    return found
