"""One Spark at a time in a Ray: whoever finds another at work waits for its turn, and says for whom.

The turn is the name of the placement group in which the executors run. Ray keeps names apart itself, and removes the
group with the process that made it, however that ends: nothing is left behind that somebody would have to clear.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from ray.exceptions import RayError
from ray.experimental import internal_kv
from ray.util.placement_group import PlacementGroup, get_placement_group, placement_group

from mirror_ray.model.errors import MirrorError
from mirror_ray.state.actor_names import NAMESPACE
from mirror_ray.whoami import whoami

#: Of the placement group, in our namespace; also the key of who has it.
_NAME: Final = "spark"
#: A verification of everything may take an hour: then the other command is to be given again.
_MOST_WAIT_S: Final = 600.0
_AGAIN_S: Final = 0.5


def reserve(
    bundles: list[dict[str, float]],
    work: str,
    tell: Callable[[str], None],
    *,
    most_wait_s: float = _MOST_WAIT_S,
    again_s: float = _AGAIN_S,
) -> PlacementGroup:
    """A placement group of these bundles, asked for once no other command of this Ray has Spark; not placed yet.

    Args:
        bundles: What each executor takes.
        work: The command and what it works on, for those who wait: ``verify A->B``.
        tell: Says for whom is waited, once for each.
        most_wait_s: How long the turn is waited for.
        again_s: How often it is asked for.

    Raises:
        MirrorError: Another command is still at work then; names it.
    """
    until_s = time.monotonic() + most_wait_s
    told = None
    while True:
        try:
            room: PlacementGroup = placement_group(bundles, strategy="PACK", name=_NAME)
        except RayError:
            # Ray has no error of its own for it.
            if not _is_taken():
                raise
        else:
            _put(f"{work} of {whoami()}, process {os.getpid()}, since {time.strftime('%H:%M:%S')}")
            return room
        holder = _get()
        if time.monotonic() >= until_s:
            raise MirrorError(
                f"Spark in this Ray is still taken after {most_wait_s:g} s, by {holder}: give the command again when"
                " that has ended, or name another Ray by --address"
            )
        if holder != told:
            told = holder
            tell(f"waiting for Spark in this Ray: {holder} is at work, and one command has it at a time")
        time.sleep(again_s)


def _is_taken() -> bool:
    try:
        get_placement_group(_NAME)
    except ValueError:
        return False
    return True


def _put(holder: str) -> None:
    internal_kv._internal_kv_put(_NAME.encode(), holder.encode(), overwrite=True, namespace=NAMESPACE.encode())  # noqa: SLF001 - Ray has no public one


def _get() -> str:
    holder = internal_kv._internal_kv_get(_NAME.encode(), namespace=NAMESPACE.encode())  # noqa: SLF001
    return holder.decode() if holder else "another command"
