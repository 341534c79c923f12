"""Collects the properties that a resource of Strimzi stands for, and where in it each of them is."""

from __future__ import annotations

import re
from typing import Any, Final

from mirror_ray.config.loaded import ConfigNote

_REFERENCE: Final = re.compile(r"\$\{([^}:]+):([^}]*)\}")


class ResourceProperties:
    """Keys of ``mm2.properties`` with their values, and with the paths that users know.

    Attributes:
        texts: The values.
        paths: Where each key is in the resource; aliases and flows have entries, too.
        notes: What has no effect.
        problems: A sentence for each mistake, which may be there several times.
        of_kubernetes: Names of the config providers that read Secrets and ConfigMaps.
    """

    def __init__(self, secrets_directory: str) -> None:
        self.secrets_directory = secrets_directory
        self.texts: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        self.notes: list[ConfigNote] = []
        self.problems: list[str] = []
        self.of_kubernetes: set[str] = set()

    def put(self, key: str, value: object, path: str) -> None:
        """Set a key, unless the value is None; another value that it has already is a mistake."""
        if value is None:
            return
        if isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, str | int | float):
            text = self._with_mounted_secrets(str(value))
        else:
            self.problems.append(f"{path}: not a text, a number or a truth value")
            return
        if self.texts.setdefault(key, text) != text:
            self.problems.append(f"{path}: {self.paths[key]} has another value for it; write the same in both")
        self.paths.setdefault(key, path)

    def mapping(self, value: object, path: str, *, required: bool = False) -> dict[str, Any]:
        """The mapping at a path; an empty one where there is none, which is a mistake if it is ``required``."""
        if isinstance(value, dict):
            return value
        if value is not None or required:
            self.problems.append(
                f"{path}: {'missing' if value is None else 'not a mapping'}; write KEY: VALUE below it"
            )
        return {}

    def items(self, value: object, path: str) -> list[tuple[str, dict[str, Any]]]:
        """The mappings of a list, each with its path."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.problems.append(f"{path}: not a list")
            return []
        paths = [f"{path}[{number}]" for number in range(len(value))]
        return [(each, self.mapping(item, each)) for each, item in zip(paths, value, strict=True)]

    def secret(self, value: object, key_field: str, path: str) -> str:
        """A reference to a Secret's key, of a field with ``secretName`` and a ``key_field``; "" is a mistake."""
        fields = self.mapping(value, path, required=True)
        name, key = fields.get("secretName"), fields.get(key_field)
        if isinstance(name, str) and isinstance(key, str) and name and key:
            return self.mounted(name, key)
        if value is not None:
            self.problems.append(f"{path}: secretName and {key_field} name a Secret and its key")
        return ""

    def mounted(self, secret: str, key: str) -> str:
        """A reference to a Secret's key where it is mounted."""
        return f"${{strimzidir:{self.secrets_directory}/{secret}:{key}}}"

    def sentence(self, problem: str) -> str:
        """A sentence about a key as one about its place in the resource."""
        key, colon, rest = problem.partition(": ")
        return f"{self.paths[key]}: {rest}" if colon and key in self.paths else problem

    def _with_mounted_secrets(self, text: str) -> str:
        """References to Secrets, ``${provider:namespace/name:key}``, as references to where they are mounted."""

        def mounted(reference: re.Match[str]) -> str:
            place, _, key = reference[2].partition(":")
            if reference[1] not in self.of_kubernetes:
                return reference[0]
            return self.mounted(place.rpartition("/")[2], key)

        return _REFERENCE.sub(mounted, text)
