"""Config providers: ``${provider:path:key}`` in a value is replaced by what a file or the environment holds.

A provider is kept as data (``ProviderSpec``), so that a reference can be resolved anew later, and in another process.
Source: KIP-297, KIP-887; ``org.apache.kafka.common.config.{ConfigTransformer,provider.*}``.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from mirror_ray.config.base import Settings, comma_separated
from mirror_ray.config.properties import parse_properties
from mirror_ray.model.patterns import Pattern, compile_patterns

#: Characters that a file of values may have.
_LARGEST: Final = 1 << 20
_LONGEST_SHOWN: Final = 60
_PROVIDER_PACKAGE: Final = "org.apache.kafka.common.config.provider."

ProviderKind = Literal["file", "dir", "env"]
_CLASSES: Final[Mapping[str, ProviderKind]] = {
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
}


#: Looks up a key at a path; raises a LookupError with a sentence for the user where it has no value.
ConfigProvider = Callable[[str, str], str]


def _from_file(allowed_paths: tuple[str, ...], path: str, key: str) -> str:
    """Kafka's ``FileConfigProvider``: ``${file:/path/to/a.properties:key}``; the file is UTF-8."""
    try:
        entries = parse_properties(_read(path, allowed_paths))
    except ValueError as error:
        raise LookupError(f"{path} can't be read: {error}") from error
    if key not in entries:
        raise LookupError(f"{path} has no key {key!r}")
    return entries[key]


def _from_directory(allowed_paths: tuple[str, ...], path: str, key: str) -> str:
    """Kafka's ``DirectoryConfigProvider``: ``${dir:/path:file}`` is the content of the file."""
    if "/" in key or key in ("", ".", ".."):
        raise LookupError(f"{key!r} is not the name of a file in {path}")
    return _read(str(Path(path) / key), allowed_paths)


def _from_environment(environ: Mapping[str, str], allowed: Pattern | None, path: str, key: str) -> str:
    """Kafka's ``EnvVarConfigProvider``: ``${env:NAME}``, also written ``${env::NAME}``."""
    if path:
        raise LookupError(f"an environment variable has no path: write ${{env:{key}}}")
    if allowed is not None and not allowed.fits(key):
        raise LookupError(f"allowlist.pattern does not let the environment variable {key} through")
    if key not in environ:
        raise LookupError(f"the environment variable {key} is not set")
    return environ[key]


def _read(path: str, allowed: tuple[str, ...]) -> str:
    try:
        real = Path(path).resolve()
        if allowed and not any(real.is_relative_to(Path(parent).resolve()) for parent in allowed):
            raise LookupError(f"allowed.paths does not let {path} through")
        if not stat.S_ISREG(real.stat().st_mode):
            raise LookupError(f"{path} can't be read: it is not a regular file")
        with real.open(encoding="utf-8") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise LookupError(f"{path} can't be read: {error.strerror}") from error
    except RuntimeError as error:
        raise LookupError(f"{path} can't be read: its symbolic links lead back to themselves") from error
    except UnicodeDecodeError as error:
        raise LookupError(f"{path} can't be read: it is not UTF-8") from error
    except ValueError as error:
        raise LookupError(f"{path!r} can't be read: {error}") from error
    if len(content) > _LARGEST:
        raise LookupError(f"{path} can't be read: it has more than {_LARGEST:,} characters")
    return content


def resolve(value: str, providers: Mapping[str, ConfigProvider]) -> str:
    """Replace the references in a value, once: what a provider returns is not resolved again.

    Raises:
        LookupError: No such provider, or it has no such value. The text never holds a value.
    """
    return "".join(part if isinstance(part, str) else _looked_up(part, providers) for part in _parts(value))


class _Reference(NamedTuple):
    provider: str
    path: str
    key: str


def _parts(value: str) -> Iterator[str | _Reference]:
    """Cut a value at its references, ``${provider:key}`` and ``${provider:path:key}``, in linear time."""
    at = 0
    while (begin := value.find("${", at)) >= 0 and (end := value.find("}", begin)) >= 0:
        provider, colon, rest = value[begin + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield value[at:begin]
            yield _Reference(provider, path, key) if second else _Reference(provider, "", rest)
        else:
            yield value[at : end + 1]
        at = end + 1
    yield value[at:]


def _looked_up(reference: _Reference, providers: Mapping[str, ConfigProvider]) -> str:
    if reference.provider not in providers:
        known = ", ".join(providers) or "none"
        name = reference.provider if len(reference.provider) <= _LONGEST_SHOWN else "..."
        raise LookupError(f"a reference names the config provider {name!r}; declared are: {known}")
    return providers[reference.provider](reference.path, reference.key)


class ProviderSpec(Settings):
    """One config provider: its kind, and what it may read."""

    kind: ProviderKind
    #: ``param.allowed.paths``; empty: all.
    allowed_paths: tuple[str, ...] = ()
    #: ``param.allowlist.pattern``; None: every variable.
    allowlist_pattern: str | None = None


ProviderSpecs = Mapping[str, ProviderSpec]

#: The providers of the native form, by the names that references use; they need no declaration.
STANDARD_PROVIDERS: Final[ProviderSpecs] = MappingProxyType(
    {"env": ProviderSpec(kind="env"), "file": ProviderSpec(kind="file"), "dir": ProviderSpec(kind="dir")}
)


def build_providers(specs: ProviderSpecs, environ: Mapping[str, str]) -> dict[str, ConfigProvider]:
    """The providers by their names; ``environ`` is what ``env`` providers read.

    Raises:
        ValueError: An allowlist pattern is no regular expression.
    """
    return {name: _build(spec, environ) for name, spec in specs.items()}


def _build(spec: ProviderSpec, environ: Mapping[str, str]) -> ConfigProvider:
    match spec.kind:
        case "file":
            return partial(_from_file, spec.allowed_paths)
        case "dir":
            return partial(_from_directory, spec.allowed_paths)
        case "env":
            allowed = compile_patterns((spec.allowlist_pattern,)) if spec.allowlist_pattern else None
            return partial(_from_environment, environ, allowed)


def declared_providers(properties: Mapping[str, str], problems: list[str]) -> dict[str, ProviderSpec]:
    """The providers that ``config.providers`` declares; a sentence per mistake is added to ``problems``."""
    found: dict[str, ProviderSpec] = {}
    for name in comma_separated(properties.get("config.providers", "")):
        prefix = f"config.providers.{name}"
        class_name = properties.get(f"{prefix}.class", "").strip()
        kind = _CLASSES.get(class_name.removeprefix(_PROVIDER_PACKAGE))
        if not class_name:
            problems.append(f"{prefix}.class: missing; config.providers lists {name!r}")
        elif kind is None:
            problems.append(
                f"{prefix}.class: {class_name} is a Java class, which can't be carried over; use Kafka's "
                f"{', '.join(list(_CLASSES)[:-1])} or {list(_CLASSES)[-1]}"
            )
        else:
            spec = ProviderSpec(
                kind=kind,
                allowed_paths=comma_separated(properties.get(f"{prefix}.param.allowed.paths", "")),
                allowlist_pattern=properties.get(f"{prefix}.param.allowlist.pattern") if kind == "env" else None,
            )
            try:
                _build(spec, {})
            except ValueError as error:
                problems.append(f"{prefix}.param.allowlist.pattern: {error}")
            else:
                found[name] = spec
    return found
