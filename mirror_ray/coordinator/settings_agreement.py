"""What an `up` on a running system would change, and whether that is still what its caller has agreed to."""

from __future__ import annotations

import socket
from dataclasses import replace

from mirror_ray.config.difference import SettingsDifference, changed, rescaled
from mirror_ray.config.secrets import secrets_in
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.fingerprint import fingerprint
from mirror_ray.coordinator.scaling import ScalingController, refuse_number
from mirror_ray.model.errors import ConfigError, NotReadyError


def replicators_for(
    before: MirrorSettings | None, after: MirrorSettings, scaling: ScalingController, asked: int | None
) -> int:
    """How many replicators a system is brought to; ``asked`` None: it keeps its number, unless the settings' differs.

    A number that an operator has set by `scale` in the place of load and lag stays.

    Raises:
        ConfigError: There can't be as many as are asked for.
    """
    if asked is not None:
        refuse_number(asked)
        return asked
    if before is None or (before.replicators != after.replicators and not scaling.pinned):
        return after.replicators
    return scaling.wanted or after.replicators


def would_change(
    before: MirrorSettings | None, after: MirrorSettings, scaling: ScalingController, asked: int | None = None
) -> SettingsDifference:
    """What is touched when a system that runs by ``before`` is brought to ``after``, and a mark of what runs now."""
    found = changed(before, after)
    if before is None:
        return found
    wanted = scaling.would_be(after, replicators_for(before, after, scaling, asked))
    found = rescaled(found, scaling.wanted, wanted)
    number = next((each.before for each in found.system if each.key == "replicators"), "")
    return replace(found, onto=f"{fingerprint(before)}/{number}")


def refuse_unresolvable(settings: MirrorSettings) -> None:
    """See that every secret can be resolved here, before anything is started by it.

    Raises:
        ConfigError: With a sentence for each that can't, naming its key and what it refers to.
    """
    problems = []
    for key, secret in secrets_in(settings):
        try:
            secret.reveal()
        except LookupError as error:
            problems.append(f"{key}: {error.args[0]}")
    if problems:
        node = f"secrets are looked up on every node where the system runs, and this is {socket.gethostname()}"
        raise ConfigError(*problems, f"{node}; nothing has been changed")


def refuse_others(name: str, agreed: str | None, found: SettingsDifference) -> None:
    """See that what runs is what a caller has agreed to change.

    Args:
        name: The system's.
        agreed: ``SettingsDifference.onto`` of what the caller was shown; None: whatever runs.
        found: What would be touched now.

    Raises:
        NotReadyError: It is not; and what the caller wants does not run already.
    """
    if agreed is None or agreed == found.onto or found.nothing:
        return
    if not agreed:
        raise NotReadyError(f"{name} has been started by somebody else meanwhile: give the command again")
    raise NotReadyError(f"{name} was changed by somebody else since: give the command again to see what it changes")
