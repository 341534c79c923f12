"""The files of the web UI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from mirror_ray.observe.figures import figures_of
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, TopicStatus

_FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_TABLES: Final[dict[str, type[Any]]] = {
    "flows": FlowStatus,
    "topics": TopicStatus,
    "partitions": PartitionStatus,
    "replicators": ReplicatorStatus,
}


def routes() -> list[web.RouteDef]:
    """The page at ``/``, what it is made of under ``/assets/``. Only names that are there when the server starts."""
    files = {path.name: _file(path) for path in _FOLDER.iterdir() if path.suffix in _TYPES}
    files["figures.js"] = f"export const TABLES = {json.dumps(_tables())};\n", _TYPES[".js"]

    async def page(_: web.Request) -> web.Response:
        return _answer(*files["index.html"])

    async def asset(request: web.Request) -> web.Response:
        found = files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _answer(*found)

    return [web.get("/", page), web.get("/assets/{name}", asset)]


def _tables() -> dict[str, list[dict[str, object]]]:
    """The columns of each table, as the status classes declare them."""
    return {
        table: [
            {
                "field": name,
                "title": figures_of(status)[name].web_title,
                "format": figures_of(status)[name].format,
                "second": figures_of(status)[name].second,
                "wide": name in status.WEB_WIDE,
            }
            for name in status.WEB_COLUMNS
        ]
        for table, status in _TABLES.items()
    }


def _file(path: Path) -> tuple[str, str]:
    return path.read_text(encoding="utf-8"), _TYPES[path.suffix]


def _answer(text: str, kind: str) -> web.Response:
    answer = web.Response(text=text, content_type=kind)
    answer.enable_compression()
    return answer
