"""The page ``docs/partition-states.md``, made from the transition table so that it can't differ from it."""

from __future__ import annotations

from pathlib import Path

from mirror_ray.replication.partition_states import (
    OVER_BY,
    ROWS,
    TRANSITIONS,
    CopyState,
    Instruction,
    Recovery,
    StateEvent,
)


def markdown() -> str:
    """Return the table as a page: the states, a Mermaid diagram, and all transitions."""
    lines = [
        "# States of a partition",
        "",
        "Generated from the transition table in `mirror_ray/replication/partition_states.py` by",
        "`python -m mirror_ray.replication.partition_states_page`; a test holds it to that.",
        "",
        "A replicator keeps each partition in one of these states. An event leads to another state and to what is to",
        "be done; an event that the table does not have for a state must not occur. `status`, JSON and metrics show a",
        "partition as `stopped`, too, while the cause of its last stop is not seen to be over.",
        "",
        "## States",
        "",
        "| state | shown as | meaning |",
        "|---|---|---|",
        *(f"| {state.name} | `{state.shown}` | {state.text} |" for state in CopyState),
        "",
        "## Diagram",
        "",
        "Transitions to the same state are left out, and so are DRAIN and REMOVE, which are possible in every state.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {CopyState.ESTABLISHING.name}",
        *_edges(),
        f"    {CopyState.REMOVED.name} --> [*]",
        "```",
        "",
        "## Events",
        "",
        "| event | meaning |",
        "|---|---|",
        *(f"| {event.name} | {event.value} |" for event in StateEvent),
        "",
        "## Instructions",
        "",
        "| instruction | meaning |",
        "|---|---|",
        *(f"| {instruction.name} | {instruction.value} |" for instruction in Instruction),
        "",
        "## Transitions",
        "",
        "| event | in state | next state | instructions |",
        "|---|---|---|---|",
        *(
            f"| {event.name} | {', '.join(start.name for start in starts)} | {finish.name} | "
            f"{', '.join(instruction.name for instruction in instructions)} |"
            for event, starts, finish, instructions in ROWS
        ),
        "",
        "## When a stop is over",
        "",
        "| cause | is over once |",
        "|---|---|",
        *(
            f"| {'another error' if kind is None else f'`{kind}`'} | "
            f"{', or '.join(sign.value for sign in Recovery if sign in signs)} |"
            for kind, signs in OVER_BY.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _edges() -> list[str]:
    events: dict[tuple[CopyState, CopyState], list[str]] = {}
    for (start, event), (finish, _) in TRANSITIONS.items():
        if start is not finish and event not in {StateEvent.DRAIN, StateEvent.REMOVE}:
            events.setdefault((start, finish), []).append(event.name)
    return [f"    {start.name} --> {finish.name}: {', '.join(names)}" for (start, finish), names in events.items()]


def main() -> None:
    """Write ``docs/partition-states.md`` anew."""
    page = Path(__file__).parents[2] / "docs" / "partition-states.md"
    page.write_text(markdown())


if __name__ == "__main__":
    main()
