"""Declares the queries and commands of a system: a method's signature and docstring are all that a client needs.

A *query* changes nothing; a *command* is kept in the audit log and in the event log. The methods of
``mirror_ray.mirror.CoordinatorClient`` are declared so, and ``mirror_ray.coordinator`` has a method of the same name
and parameters for each. A parameter ``flow`` names the flow that a command is about, one ``dry_run`` says that it
changes nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, Protocol, Self, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: What a command changes, as the audit log shows it before and after; None: only its answer does.
AuditedState = Literal["flows", "paused", "replicators", "scaling"]

_ANSWER_S = 30.0
#: What the coordinator needs to end the other actors once draining is over, with room for a busy machine.
_ENDING_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A query or a command; commands have a ``kind``."""

    name: str
    #: The command's name in the audit log; None: a query.
    kind: str | None
    state: AuditedState | None
    #: Whether the gateway offers it to clients with a token.
    web: bool
    timeout_s: float
    signature: inspect.Signature

    def arguments(self, args: Sequence[object], options: Mapping[str, object]) -> tuple[object, ...]:
        """All arguments in their order, defaults included: so they are sent."""
        bound = self.signature.bind(None, *args, **options)
        bound.apply_defaults()
        return bound.args[1:] + tuple(bound.kwargs.values())

    def kinds(self) -> dict[str, str]:
        """The types of its parameters as they are written, by name."""
        return {name: parameter.annotation for name, parameter in list(self.signature.parameters.items())[1:]}

    def named(self, args: Sequence[object]) -> dict[str, Any]:
        """Arguments that were sent, by name."""
        names = list(self.signature.parameters)[1:]
        return dict(zip(names, args, strict=False))

    def deadline_s(self, args: Sequence[object]) -> float:
        """How long an answer may take; what drains may take its own deadline, too."""
        drains_s = self.named(args).get("deadline_s")
        return self.timeout_s if drains_s is None else float(drains_s) + _ENDING_S


class CoordinatorLink(Protocol):
    """A connection to a coordinator."""

    async def ask(self, method: str, *args: object, timeout_s: float) -> Any:
        """Call a method of the coordinator; one that restarts at the moment is waited for.

        Raises:
            NoAnswerError: It did not answer within ``timeout_s``.
            NotRunningError: It has ended.
            MirrorError: What it refused.
        """

    def end(self) -> None:
        """End every actor of the system without asking it, and the Ray that was left running for it."""

    def close(self) -> None:
        """Disconnect."""


class VerbClient:
    """Sends verbs to a coordinator."""

    def __init__(self, name: str, link: CoordinatorLink, operator: str) -> None:
        """``name``: the system's; ``operator``: who gives the commands, as the audit log names them."""
        self.name = name
        self._link = link
        self._operator = operator

    def by(self, operator: str) -> Self:
        """The same system for another operator."""
        return type(self)(self.name, self._link, operator)

    async def send(self, verb: Verb, args: tuple[object, ...]) -> Any:
        """Send a verb with all its arguments."""
        timeout_s = verb.deadline_s(args)
        if verb.kind is None:
            return await self._link.ask(verb.name, *args, timeout_s=timeout_s)
        return await self._link.ask("act", self._operator, verb.name, args, timeout_s=timeout_s)


def query(declared: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """A question."""
    return _sent(declared, kind=None, state=None, web=False)


def command(
    state: AuditedState | None = None, *, kind: str | None = None, web: bool = False
) -> Callable[[Callable[_P, Coroutine[Any, Any, _T]]], Callable[_P, Coroutine[Any, Any, _T]]]:
    """A change of the system.

    Args:
        state: What it changes.
        kind: Its name in the audit log, where that is not its own.
        web: Whether the gateway offers it to clients with a token.
    """

    def decorate(declared: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
        return _sent(declared, kind=kind or declared.__name__, state=state, web=web)

    return decorate


def verbs_of(client: type) -> dict[str, Verb]:
    """Every verb that a class declares, by name."""
    found = (getattr(method, "verb", None) for method in vars(client).values())
    return {verb.name: verb for verb in found if isinstance(verb, Verb)}


def _sent(
    declared: Callable[_P, Coroutine[Any, Any, _T]], *, kind: str | None, state: AuditedState | None, web: bool
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    verb = Verb(
        name=declared.__name__,
        kind=kind,
        state=state,
        web=web,
        timeout_s=_ANSWER_S,
        signature=inspect.signature(declared),
    )

    @functools.wraps(declared)
    async def send(*args: _P.args, **options: _P.kwargs) -> _T:
        client: Any = args[0]
        answer: _T = await client.send(verb, verb.arguments(args[1:], options))
        return answer

    send.verb = verb  # type: ignore[attr-defined]
    return send


class Listing(tuple[_T, ...]):
    """A tuple that prints one line for each item."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(str(item) for item in self) or "none"
