"""Names by which the actors of a running system find each other and are found."""

from __future__ import annotations

#: Ray namespace of every actor of ours.
NAMESPACE = "mirror-ray"
#: Name of a system that was not given one.
DEFAULT_NAME = "mirror"


def coordinator_name(system: str) -> str:
    """Ray actor name of the system's coordinator."""
    return f"{system}:coordinator"


def heartbeat_name(system: str) -> str:
    """Ray actor name of the system's heartbeat emitter."""
    return f"{system}:heartbeat"


def gateway_name(system: str) -> str:
    """Ray actor name of the system's gateway."""
    return f"{system}:gateway"


def schema_sync_name(system: str) -> str:
    """Ray actor name of the system's schema sync."""
    return f"{system}:schemas"


def checkpoint_name(system: str, number: int) -> str:
    """Ray actor name of the system's checkpoint actor ``number``, from 0."""
    return f"{system}:checkpoint:{number}"


def replicator_name(system: str, number: int) -> str:
    """Ray actor name of replicator ``number``; also its id in reports and ``replicators -o json``."""
    return f"{system}:replicator:{number}"


def replicator_number(system: str, actor_name: str) -> int | None:
    """The number in a replicator's actor name; None where the name is not a replicator of this system."""
    return _number(replicator_name(system, 0)[:-1], actor_name)


def checkpoint_number(system: str, actor_name: str) -> int | None:
    """The same of a checkpoint actor."""
    return _number(checkpoint_name(system, 0)[:-1], actor_name)


def is_actor_of(system: str, actor_name: str) -> bool:
    """Whether an actor name is one of this system's."""
    alone = (coordinator_name(system), heartbeat_name(system), gateway_name(system), schema_sync_name(system))
    return actor_name in alone or (
        replicator_number(system, actor_name) is not None or checkpoint_number(system, actor_name) is not None
    )


def _number(prefix: str, actor_name: str) -> int | None:
    number = actor_name.removeprefix(prefix)
    return int(number) if number != actor_name and number.isdecimal() else None
