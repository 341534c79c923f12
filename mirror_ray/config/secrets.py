"""Secrets as settings hold them: by reference, resolved where they are used.

A secret that a file names by ``${provider:path:key}`` is not in the settings, hence in no message of Ray and in no
store; every ``reveal`` resolves it again, so that a rotated secret is used from then on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo, ValidationInfo
from pydantic_core import core_schema

from mirror_ray.config.jaas import parse_jaas
from mirror_ray.config.providers import ConfigProvider, ProviderSpec, ProviderSpecs, build_providers, resolve

#: The pydantic context in which secrets are serialised and read again as they are stored: references as their texts,
#: literal secrets in clear text. Without it they are shown as ``(secret)`` and as the references.
STORED: Final[Mapping[str, bool]] = {"secrets are kept": True}

_HIDDEN: Final = "(secret)"


class Secret:
    """A secret of the configuration. Two are equal if they are written alike, whatever their references lead to.

    Its ``repr`` shows references, and nothing of a literal secret.
    """

    __slots__ = ("option", "providers", "references", "text", "trimmed")

    def __init__(
        self, text: str, providers: ProviderSpecs | None = None, *, option: str | None = None, trimmed: bool = False
    ) -> None:
        """``text``: as it is written, with references to ``providers``; without providers it is the secret itself.

        ``option``: the secret is that option of the JAAS line that ``text`` resolves to. ``trimmed``: white space
        around it is removed, as Kafka reads passwords. Relative paths are made absolute, from the working directory.

        Raises:
            LookupError: A reference names another provider.
        """
        given = dict(providers or {})
        found = {name: _References(name, spec) for name, spec in given.items()}
        self.text = resolve(text, found) if given else text
        self.references = tuple(
            dict.fromkeys(reference for provider in found.values() for reference in provider.references)
        )
        self.providers = {name: given[name] for name, provider in found.items() if provider.references}
        self.option = option
        self.trimmed = trimmed

    def of_line(self, option: str) -> Secret:
        """An option of the JAAS line that this resolves to; literal where the line has the option in clear text."""
        try:
            written = parse_jaas(self.text)[1].get(option, "")
        except ValueError:
            written = ""
        if written and not any(reference in written for reference in self.references):
            return Secret(written)
        return Secret(self.text, self.providers, option=option)

    @property
    def is_literal(self) -> bool:
        """Whether the configuration holds the secret itself and no reference to it."""
        return not self.providers

    @property
    def native(self) -> str | None:
        """The reference in the native form, which has only the standard providers; None: it is literal, or has none."""
        try:
            text = self.text if self.option is None else parse_jaas(self.text)[1].get(self.option)
        except ValueError:
            return None
        if self.is_literal or text is None:
            return None
        return resolve(text, {name: _References(spec.kind, spec) for name, spec in self.providers.items()})

    def reveal(self, environ: Mapping[str, str] | None = None) -> str:
        """Resolve the secret, without the one newline that a file of its own may end in.

        ``environ``: environment variables, those of this process by default.

        Raises:
            LookupError: A reference leads to nothing here; the text names it, and never holds a value.
        """
        if self.is_literal:
            return self.text
        plain = build_providers(self.providers, os.environ if environ is None else environ)
        providers = {name: partial(_without_final_newline, provider) for name, provider in plain.items()}
        try:
            found = resolve(self.text, providers)
        except LookupError as error:
            raise LookupError(f"{self!r} can't be resolved on this machine: {error.args[0]}") from None
        if self.option is not None:
            found = self._option_of(found)
        return found.strip() if self.trimmed else found

    def _option_of(self, line: str) -> str:
        try:
            return parse_jaas(line)[1][self.option or ""]
        except (ValueError, KeyError):
            why = f"what it holds now is no JAAS line with the option {self.option}"
            raise LookupError(f"{self!r} can't be used: {why}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._all == other._all

    def __hash__(self) -> int:
        return hash((self.text, self.option))

    @property
    def _all(self) -> tuple[object, ...]:
        return self.text, self.option, self.trimmed, self.providers

    def __repr__(self) -> str:
        return ", ".join(self.references) or _HIDDEN

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda secret, info: secret.stored(info), info_arg=True, when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "format": "password", "writeOnly": True}

    @classmethod
    def read(cls, value: object, info: ValidationInfo) -> Secret:
        """Validate for pydantic: a text is a literal secret; what ``stored`` returned is read in its context."""
        match value:
            case Secret():
                return value
            case SecretReference():
                return value.secret
            case str():
                return cls(value)
            case {"text": str(text), "providers": dict(providers), "option": option, "trimmed": trimmed} if (
                info.context == STORED
            ):
                specs = {name: ProviderSpec.model_validate(spec) for name, spec in providers.items()}
                return cls(text, specs, option=option, trimmed=trimmed)
            case _:
                raise ValueError("should be a valid string")

    def stored(self, info: SerializationInfo) -> object:
        """Serialise as JSON: masked, or in the context ``STORED`` so that ``read`` gives it back."""
        if info.context != STORED:
            return repr(self)
        providers = {name: spec.model_dump(mode="json") for name, spec in self.providers.items()}
        return {"text": self.text, "providers": providers, "option": self.option, "trimmed": self.trimmed}


class SecretReference(str):
    """The value that a reference in a file leads to; ``secret`` is the reference, for a field that is a secret."""

    __slots__ = ("secret",)

    secret: Secret

    @classmethod
    def to(cls, secret: Secret, value: str) -> SecretReference:
        """A value with the reference that it came from."""
        found = cls(value)
        found.secret = secret
        return found


class _References:
    """A config provider that collects references, and returns each of them with an absolute path."""

    def __init__(self, name: str, spec: ProviderSpec) -> None:
        self._name, self._spec = name, spec
        self.references: list[str] = []

    def __call__(self, path: str, key: str) -> str:
        if path and self._spec.kind != "env":
            path = str(Path(path).absolute())
        self.references.append(f"${{{self._name}:{path}:{key}}}" if path else f"${{{self._name}:{key}}}")
        return self.references[-1]


def _without_final_newline(provider: ConfigProvider, path: str, key: str) -> str:
    return provider(path, key).removesuffix("\n").removesuffix("\r")


def secrets_in(value: object, path: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield each secret of settings, with its path from there: ``security.sasl.password``."""
    match value:
        case Secret():
            yield path, value
            return
        case BaseModel():
            children: Iterable[tuple[object, object]] = value
        case dict():
            children = value.items()
        case list() | tuple():
            children = enumerate(value)
        case _:
            return
    for name, child in children:
        yield from secrets_in(child, f"{path}.{name}" if path else str(name))
