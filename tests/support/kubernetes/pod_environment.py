"""What a container is started with: its command and its environment, as the kubelet works them out of a pod."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

Object = dict[str, Any]
#: The data of a ConfigMap or a Secret by kind ("configMap", "secret") and name; none: there is no such thing.
Lookup = Callable[[str, str], dict[str, str] | None]

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")
_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class MissingValueError(Exception):
    """A container's environment names what is not there."""


def quantity(text: str | float) -> Decimal:
    """The number that Kubernetes writes as ``200m``, ``4Gi`` or ``1e3``.

    Raises:
        ValueError: It is none.
    """
    matched = _QUANTITY.fullmatch(str(text))
    if matched is None:
        raise ValueError(f"{text!r} is no quantity: write it as 500m, 2 or 4Gi")
    number, unit = matched.groups()
    if unit in _BINARY:
        return Decimal(number) * (1 << _BINARY[unit])
    if unit not in _DECIMAL:
        raise ValueError(f"{text!r} has a unit that Kubernetes does not know: {unit}")
    return Decimal(number).scaleb(_DECIMAL[unit])


def expand(text: str, environment: dict[str, str]) -> str:
    """Put variables in for ``$(NAME)``; ``$$`` is one ``$``, and an unknown name stays as it is written."""

    def put(matched: re.Match[str]) -> str:
        if matched[0] == "$$":
            return "$"
        return environment.get(matched[1], matched[0])

    return _REFERENCE.sub(put, text)


def field(pod: Object, path: str) -> str:
    """A field of a pod that the downward API gives.

    Raises:
        MissingValueError: It gives no such field.
    """
    metadata, status = pod["metadata"], pod.get("status", {})
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": ",".join(one["ip"] for one in status.get("podIPs", [])),
        "status.hostIP": status.get("hostIP", ""),
        "status.hostIPs": ",".join(one["ip"] for one in status.get("hostIPs", [])),
    }
    if path in simple:
        return str(simple[path])
    matched = _SUBSCRIPT.fullmatch(path)
    if matched is not None:
        return str(metadata.get(matched[1], {}).get(matched[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        entries = metadata.get(path.removeprefix("metadata."), {})
        return "".join(f'{key}="{_escaped(entries[key])}"\n' for key in sorted(entries)).rstrip("\n")
    raise MissingValueError(f"unsupported fieldPath: {path}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_field(container: Object, reference: Object, node: dict[str, str]) -> str:
    """A container's request or limit; where there is no limit, what the ``node`` has, by ``cpu`` and ``memory``."""
    kind, _, name = reference["resource"].partition(".")
    resources = container.get("resources", {})
    found = resources.get(kind, {}).get(name)
    if found is None and kind == "requests":
        found = resources.get("limits", {}).get(name)
    if found is None:
        found = node.get(name, "0") if kind == "limits" else "0"
    divisor = quantity(reference.get("divisor") or "0") or Decimal(1)
    return str(math.ceil(quantity(found) / divisor))


def service_links(services: list[Object], namespace: str, *, enabled: bool) -> dict[str, str]:
    """Variables that name services: those of the pod's namespace, if it asks for them, and the API's own always."""
    found: dict[str, str] = {}
    for service in services:
        name, place = service["metadata"]["name"], service["metadata"]["namespace"]
        address = service["spec"].get("clusterIP", "None")
        is_api = (place, name) == ("default", "kubernetes")
        if address in {"", "None"} or not (is_api or (enabled and place == namespace)):
            continue
        prefix, ports = name.upper().replace("-", "_"), service["spec"].get("ports", [])
        found |= {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
        for port in ports:
            if port.get("name"):
                found[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
            protocol = port.get("protocol", "TCP").lower()
            found[f"{prefix}_PORT_{port['port']}_{protocol.upper()}"] = f"{protocol}://{address}:{port['port']}"
    return found


def environment(
    pod: Object, container: Object, given: dict[str, str], lookup: Lookup, node: dict[str, str]
) -> dict[str, str]:
    """A container's variables: ``given`` (the image's, services'), then ``envFrom``, then ``env``, in turn.

    Raises:
        MissingValueError: A ConfigMap, a Secret or a key of one is missing.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        found |= _all_of(source, lookup)
    for variable in container.get("env", []):
        value: str | None
        if "valueFrom" in variable:
            value = _value_from(pod, container, variable["valueFrom"], lookup, node)
        else:
            value = expand(variable.get("value", ""), given | found)
        if value is not None:
            found[variable["name"]] = value
    return given | found


def _all_of(source: Object, lookup: Lookup) -> dict[str, str]:
    kind = "configMap" if "configMapRef" in source else "secret"
    reference = source[f"{kind}Ref"]
    data = lookup(kind, reference["name"])
    if data is None:
        if reference.get("optional"):
            return {}
        raise MissingValueError(f'{kind.lower()} "{reference["name"]}" not found')
    return {source.get("prefix", "") + key: value for key, value in data.items()}


def _value_from(pod: Object, container: Object, source: Object, lookup: Lookup, node: dict[str, str]) -> str | None:
    match source:
        case {"fieldRef": {"fieldPath": path}}:
            return field(pod, path)
        case {"resourceFieldRef": reference}:
            of_other = [one for one in pod["spec"]["containers"] if one["name"] == reference.get("containerName")]
            return resource_field((of_other or [container])[0], reference, node)
        case {"configMapKeyRef": reference}:
            return _key_of("configMap", reference, lookup)
        case {"secretKeyRef": reference}:
            return _key_of("secret", reference, lookup)
        case _:
            raise MissingValueError(f"unsupported valueFrom: {', '.join(source)}")


def _key_of(kind: str, reference: Object, lookup: Lookup) -> str | None:
    data = lookup(kind, reference["name"])
    if data is not None and reference["key"] in data:
        return data[reference["key"]]
    if reference.get("optional"):
        return None
    if data is None:
        raise MissingValueError(f'{kind.lower()} "{reference["name"]}" not found')
    raise MissingValueError(f"couldn't find key {reference['key']} in {kind} {reference['name']}")


def command_of(container: Object, image: Object, variables: dict[str, str]) -> list[str]:
    """What is run: ``command`` stands for the image's entrypoint and its command, ``args`` for its command alone."""
    command = [expand(part, variables) for part in container.get("command") or []]
    arguments = [expand(part, variables) for part in container.get("args") or []]
    if command:
        return command + arguments
    return [*(image.get("Entrypoint") or []), *(arguments or image.get("Cmd") or [])]


def references(container: Object) -> set[tuple[str, str]]:
    """The ConfigMaps and Secrets that a container's environment names, by kind and name."""
    found = set()
    for source in container.get("envFrom", []):
        kind = "configMap" if "configMapRef" in source else "secret"
        found.add((kind, source[f"{kind}Ref"]["name"]))
    for variable in container.get("env", []):
        for kind in ("configMap", "secret"):
            reference = variable.get("valueFrom", {}).get(f"{kind}KeyRef")
            if reference:
                found.add((kind, reference["name"]))
    return found
