"""Loads transforms by the configuration: ``package.module:name`` and options."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mirror_ray.model.patterns import compile_patterns
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from mirror_ray.transforms.record import FIELDS
from mirror_ray.transforms.schema_ids import IDENTITY, SchemaIdRules
from mirror_ray.transforms.transform import fields_read

_ADVICE = (
    "name a class of yours as package.module:Class, importable where mirror-ray and its actors run, or one of "
    "mirror_ray.transforms:MaskJsonFields, FilterByKey, InsertHeader, Route (docs/transforms.md)"
)


class StepValues(Protocol):
    """What a transform is loaded by; ``TransformStep`` of the settings has it."""

    @property
    def type(self) -> str:
        """``package.module:name``."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Keyword arguments of the class; ValueError where they can't be had."""

    @property
    def topics(self) -> Sequence[str]:
        """Patterns of the source topics that it is for."""


class TransformChains:
    """The chains of a flow's topics; each transform is built once."""

    def __init__(
        self,
        steps: Sequence[StepValues],
        first: tuple[NamedTransform, str] | None = None,
        exempt: Callable[[str], bool] = lambda _: False,
        destination: str = "",
        schema_ids: SchemaIdRules | None = None,
    ) -> None:
        """Load all of them. ``first``: the transform before them, with its part of the identity.

        ``exempt``: topics that none of these is for, whatever patterns say. ``destination``: see ``TransformChain``.
        ``schema_ids``: what is done with ids behind them; None: nothing.

        Raises:
            ValueError: One can't be loaded; the text says what to do.
        """
        self._exempt = exempt
        self._destination = destination
        self._steps = [
            (compile_patterns(values.topics), (step := load_step(values)), _identity(values, step)) for values in steps
        ]
        self._first = first
        self._schema_ids = schema_ids
        self._known: dict[str, TransformChain | None] = {}

    def chain(self, topic: str) -> TransformChain | None:
        """The transforms of a source topic; None: its records stay as they are."""
        if topic not in self._known:
            self._known[topic] = None if self._exempt(topic) else self._find(topic)
        return self._known[topic]

    def identity(self, topic: str) -> str:
        """The identity of a topic's chain; empty: its records stay as they are."""
        chain = self.chain(topic)
        return "" if chain is None else chain.identity

    def _find(self, topic: str) -> TransformChain | None:
        found: list[tuple[NamedTransform, object]] = [] if self._first is None else [self._first]
        found += [
            (step, options) for pattern, step, options in self._steps if pattern is not None and pattern.fits(topic)
        ]
        ids = None if self._schema_ids is None else self._schema_ids.of(topic)
        if not found:
            return None if ids is None else TransformChain((), IDENTITY, self._destination, ids)
        named = " + ".join(f"{step.name} {step.transform.version}" for step, _ in found)
        purity = "" if all(step.transform.pure for step, _ in found) else ", not pure"
        digest = hashlib.sha256(json.dumps([options for _, options in found]).encode()).hexdigest()[:12]
        identity = f"{named} ({digest}{purity})" + ("" if ids is None else f" + {IDENTITY}")
        return TransformChain(tuple(step for step, _ in found), identity, self._destination, ids)


def load_step(values: StepValues) -> NamedTransform:
    """Import and build one transform.

    Raises:
        ValueError: It can't be imported, does not take the options, or does not say its version and whether it is pure.
    """
    module_name, _, name = values.type.partition(":")
    if not module_name or not name:
        raise ValueError(f"{values.type!r} is not of the form package.module:name; {_ADVICE}")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except Exception as error:
        raise ValueError(f"{values.type} can't be imported ({type(error).__name__}: {error}); {_ADVICE}") from error
    arguments = values.arguments
    try:
        built = found(**arguments)
    except Exception as error:
        raise ValueError(f"{values.type} can't be built from its options: {error}") from error
    if not callable(built):
        raise ValueError(f"{values.type} gives nothing to call with records; {_ADVICE}")  # noqa: TRY004
    version, pure = getattr(built, "version", None), getattr(built, "pure", None)
    if not isinstance(version, str) or not version or not isinstance(pure, bool):
        raise ValueError(
            f"{values.type} must say version (a text that changes whenever its results do) and pure (True or False: "
            "whether a record's result depends on that record alone)"
        )
    destinations = getattr(built, "destinations", ())
    if isinstance(destinations, str) or not all(isinstance(topic, str) and topic for topic in destinations):
        raise ValueError(f"{values.type}: destinations must be a collection of remote topics' names")
    if isinstance(getattr(built, "reads", ()), str) or not fields_read(built) <= set(FIELDS):
        raise ValueError(f"{values.type}: reads must be a collection of {', '.join(FIELDS)}")
    return NamedTransform(values.type, built)


def _identity(values: StepValues, step: NamedTransform) -> tuple[str, ...]:
    options = json.dumps(dict(values.arguments), sort_keys=True, default=str)
    # Without destinations it is as it was before there were routes: identities that were persisted then still hold.
    return (values.type, options, *sorted(step.transform.destinations))
