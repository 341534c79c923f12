"""Settings written in the native form: what `load_native` reads to the same settings again, but for secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import FlowSettings, MirrorSettings, NativeFlow, SystemSettings


def native_form(settings: MirrorSettings) -> dict[str, Any]:
    """The document: only what differs from the defaults; each secret is a reference to a variable of its own.

    Routes and what else is derived is left out: reading it derives it again.
    """
    system = {key: each for key, each in _plain(settings, "").items() if key in SystemSettings.model_fields}
    clusters = {alias: _cluster(alias, cluster) for alias, cluster in settings.clusters.items()}
    flows = {str(flow.name): _flow(flow) for flow in settings.flows if flow.name.is_live}
    return {"version": 1, **system, "clusters": clusters, "flows": flows}


def _cluster(alias: str, cluster: BaseModel) -> dict[str, Any]:
    return {key: each for key, each in _plain(cluster, alias).items() if key != "alias"}


def _flow(flow: FlowSettings) -> dict[str, Any]:
    return {key: value for key, value in _plain(flow, "").items() if key in NativeFlow.model_fields}


def _plain(value: Any, path: str) -> Any:
    match value:
        case BaseModel():
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            return {
                name: _plain(each, f"{path}_{name}")
                for name, each in fields.items()
                if each != type(value).model_fields[name].get_default(call_default_factory=True)
            }
        case Secret():
            return value.native or "${env:" + re.sub(r"\W", "_", f"MIRROR_{path}").upper() + "}"
        case Mapping():
            return {str(key): _plain(each, f"{path}_{key}") for key, each in value.items()}
        case tuple() | list():
            return [_plain(each, f"{path}_{number}") for number, each in enumerate(value, 1)]
        case _:
            return value
