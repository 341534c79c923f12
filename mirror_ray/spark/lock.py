"""One Spark at a time in a Ray: a lock, which is the name of the placement group in which the executors run.

Ray refuses a name that is taken, and removes the group with the process that created it, however that ends: no lock is
left behind that somebody would have to clear.
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

#: The placement group's name in our namespace, and the key of the holder's description.
_NAME: Final = "spark"
#: A verification may take an hour; the waiting command then ends, and is to be given again.
_MOST_WAIT_S: Final = 600.0
_RETRY_S: Final = 0.5
#: In the text of Ray's error.
_TAKEN: Final = "already exists"


def reserve(
    bundles: list[dict[str, float]], work: str, report: Callable[[str], None], *, most_wait_s: float = _MOST_WAIT_S
) -> PlacementGroup:
    """Create a placement group of these bundles once no other command of this Ray has Spark; it is not placed yet.

    ``work`` is the command and its subject, for those who wait: ``verify A->B``. ``report`` gets a message about each
    command that is waited for.

    Raises:
        MirrorError: Another command still has Spark then; names it.
    """
    until_s = time.monotonic() + most_wait_s
    reported = None
    while True:
        try:
            group: PlacementGroup = placement_group(bundles, strategy="PACK", name=_NAME)
        except RayError as error:
            # Ray has no error of its own for a name that is taken, and it may be free again by now.
            if _TAKEN not in str(error) and not _is_taken():
                raise
        else:
            _put(f"{work} of {whoami()}, process {os.getpid()}, since {time.strftime('%H:%M:%S')}")
            return group
        holder = _get()
        if time.monotonic() >= until_s:
            raise MirrorError(
                f"Spark in this Ray is still taken after {most_wait_s:g} s, by {holder}: give the command again when"
                " that has ended, or name another Ray by --address"
            )
        if holder != reported:
            reported = holder
            report(f"waiting for Spark in this Ray: {holder} has it, and one command has it at a time")
        time.sleep(_RETRY_S)


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
