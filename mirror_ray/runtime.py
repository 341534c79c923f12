"""What systems run in: finds and starts them.

``mirror_ray`` knows nothing of the package ``actors``, where Ray is; its module ``actors.runtime`` is loaded by name,
here alone, when a function is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mirror_ray.mirror import Mirror
from mirror_ray.state.actor_names import DEFAULT_NAME

if TYPE_CHECKING:
    from mirror_ray.config.difference import SettingsDifference
    from mirror_ray.config.settings import MirrorSettings

_RUNTIME = "actors.runtime"
#: Nothing but mirror-ray runs in this process: Ray need not be ready for whatever else might.
process_is_ours = False


class AgreedChanges(NamedTuple):
    """How a system that runs is to be changed."""

    changes: SettingsDifference
    #: See ``SettingsDifference.onto``; None: whatever runs by then.
    onto: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSystem:
    """A system that was started, or joined; the latter also where somebody else has started it meanwhile."""

    system: Mirror
    #: What was changed of it; None: it did not run before.
    changes: SettingsDifference | None
    #: The process of somebody else with which it ends, in words; None: there is none.
    ends_with: str | None


def attach(name: str = DEFAULT_NAME, address: str | None = None) -> Mirror:
    """Find the running system ``name``.

    ::

        >>> import mirror_ray
        >>> mirror = mirror_ray.attach()
        >>> mirror
        >>> mirror.scale(3)

    Args:
        name: As given to ``up --name``.
        address: Of its Ray; None: ``RAY_ADDRESS``, else the system's own Ray on this machine, else the Ray that
            runs here. Where Ray is initialised in this process already, the system is looked for there alone.

    Raises:
        NotRunningError: There is no Ray there, or no such system in it.
    """
    return cast("Mirror", _runtime().attach(name, address))


def start(
    settings: MirrorSettings,
    name: str,
    address: str | None,
    *,
    replicators: int | None,
    detach: bool,
    agree: Callable[[Mirror], AgreedChanges] | None = None,
    check: Callable[[], None] | None = None,
) -> AbstractContextManager[StartedSystem]:
    """Start the flows under that name, or update the running system of that name to them.

    Without an address, and where none runs, a Ray of its own is started on loopback; it ends when the context is left,
    or with ``detach`` by `mirror-ray down`.

    Args:
        settings: Of the flows.
        name: The system's.
        address: Ray's; None: that of the system's own Ray, else ``RAY_ADDRESS``.
        replicators: How many; None: as the settings say, or as many as run.
        detach: Whether it stays when the context is left.
        agree: Asked about a system that runs before it is changed, and says how; raises what keeps it from being
            changed. None: no system that runs is changed.
        check: Called when Ray is there, before anything is asked, started or changed in it; raises what forbids that.

    Raises:
        MirrorError: Ray can't be reached or does not start, or the settings are refused.
    """
    started = _runtime().start(
        settings, name, address, replicators=replicators, detach=detach, agree=agree, check=check
    )
    return cast("AbstractContextManager[StartedSystem]", started)


def some_ray(name: str, address: str | None) -> AbstractContextManager[None]:
    """Connected to the Ray at ``address``, or else to one of its own on loopback, which ends with the context.

    Raises:
        MirrorError: Ray can't be reached or does not start.
    """
    return cast("AbstractContextManager[None]", _runtime().some_ray(name, address))


def loopback_ray(name: str) -> AbstractContextManager[str]:
    """A Ray on loopback of that name, which ends with the context; its address. Nothing is connected to it.

    Raises:
        MirrorError: It does not start.
    """
    return cast("AbstractContextManager[str]", _runtime().loopback_ray(name))


def ending_with_ray() -> AbstractContextManager[None]:
    """While the context lasts, this process ends when the Ray that it is connected to is gone.

    A call into Spark would wait for it in vain, until after a minute Ray itself ends the process, and with an exit code
    that for some commands is an answer.
    """
    return cast("AbstractContextManager[None]", _runtime().ending_with_ray())


def _runtime() -> Any:
    return import_module(_RUNTIME)
