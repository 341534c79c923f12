"""How often the coordinator does what, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTiming:
    """Seconds between rounds, and deadlines. Tests shorten them."""

    step_s: float = 0.5
    #: Between exchanges with a replicator: offset pairs, lag and rates are at most this old.
    poll_s: float = 0.5
    #: Between full reports of a replicator: a coordinator that did not know that it had been replaced may have taken
    #: something from it, or have got what was meant for this one.
    recount_s: float = 30.0
    flush_s: float = 1.0
    #: Below ``unresponsive_s``; a replicator answers from memory, in milliseconds unless its process is starved.
    exchange_timeout_s: float = 3.0
    #: Partitions of a replicator that has not answered for this long go to others, once its lease has run out.
    silent_s: float = 5.0
    #: A replicator that has not answered for this long is killed. Longer than any pause that a busy machine causes.
    unresponsive_s: float = 15.0
    #: A first start unpacks the runtime environment and imports everything on a cold disk.
    start_timeout_s: float = 60.0
    #: For so long the share of replicators that come up for the first time is kept for them.
    start_grace_s: float = 8.0
    #: Before Ray is asked again for a replicator that it had no room for, or that could not start.
    respawn_s: float = 2.0
    #: A release waits this long for acknowledgements. Nothing is copied twice after it: the next owner reads the end.
    drain_s: float = 15.0
    #: For so long it is checked whether a killed process is dead; then its lease is waited out instead.
    confirm_s: float = 2.0
    #: Before a remote log whose beginning was deleted counts as one that begins there: a broker notes where its logs
    #: begin every minute (``log.flush.start.offset.checkpoint.interval.ms``), and goes by the note after a crash.
    prefix_kept_s: float = 65.0
    retry_first_s: float = 0.5
    retry_most_s: float = 10.0
    #: A topic that was just created has no leader yet: the first retry, each later one comes after a quarter longer, so
    #: that discovery takes at most a quarter longer than the topic does.
    settle_first_s: float = 0.05
    #: Heartbeats and consumer groups wait until everything copies, and no longer than this: starting their actors would
    #: take the processor from what copies.
    helpers_most_s: float = 5.0
    #: At most so long between checks of the number of replicators, and of the nodes that are going away.
    scaling_s: float = 5.0
    #: Loads change faster than moves pay off.
    rebalance_load_s: float = 30.0
    #: Partitions of one replicator that move at a time; its others never stop.
    moves_at_once: int = 64
