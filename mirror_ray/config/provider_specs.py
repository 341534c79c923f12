"""Config providers as data, so that a reference can be resolved anew later, and in another process.

Source: KIP-297; ``config.providers`` of ``org.apache.kafka.common.config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field

from mirror_ray.config.base import Settings
from mirror_ray.config.providers import (
    ConfigProvider,
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
)

_PROVIDER_PACKAGE: Final = "org.apache.kafka.common.config.provider."

ProviderKind = Literal["file", "dir", "env"]
_CLASSES: Final[Mapping[str, ProviderKind]] = {
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
}


class ProviderSpec(Settings):
    """One config provider: what the native form names it by, and what it may read."""

    kind: ProviderKind
    #: ``param.allowed.paths``; empty: all.
    allowed_paths: tuple[str, ...] = ()
    #: ``param.allowlist.pattern``; None: every variable.
    allowlist_pattern: str | None = Field(default=None)


ProviderSpecs = Mapping[str, ProviderSpec]

#: What the native form offers without a declaration, by the names that references have.
STANDARD_PROVIDERS: Final[ProviderSpecs] = MappingProxyType(
    {"env": ProviderSpec(kind="env"), "file": ProviderSpec(kind="file"), "dir": ProviderSpec(kind="dir")}
)


def build_providers(specs: ProviderSpecs, environ: Mapping[str, str]) -> dict[str, ConfigProvider]:
    """The providers by their names; ``environ``: what those of variables read.

    Raises:
        ValueError: An allowlist pattern is no regular expression.
    """
    return {name: _build(spec, environ) for name, spec in specs.items()}


def _build(spec: ProviderSpec, environ: Mapping[str, str]) -> ConfigProvider:
    match spec.kind:
        case "file":
            return FileConfigProvider(spec.allowed_paths)
        case "dir":
            return DirectoryConfigProvider(spec.allowed_paths)
        case "env":
            return EnvVarConfigProvider(environ, spec.allowlist_pattern)


def declared_providers(properties: Mapping[str, str], problems: list[str]) -> dict[str, ProviderSpec]:
    """What ``config.providers`` declares; one sentence per mistake is added to ``problems``."""
    found: dict[str, ProviderSpec] = {}
    for name in filter(None, (item.strip() for item in properties.get("config.providers", "").split(","))):
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
            paths = properties.get(f"{prefix}.param.allowed.paths", "").split(",")
            spec = ProviderSpec(
                kind=kind,
                allowed_paths=tuple(filter(None, (path.strip() for path in paths))),
                allowlist_pattern=properties.get(f"{prefix}.param.allowlist.pattern") if kind == "env" else None,
            )
            try:
                _build(spec, {})
            except ValueError as error:
                problems.append(f"{prefix}.param.allowlist.pattern: {error}")
            else:
                found[name] = spec
    return found
