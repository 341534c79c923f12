"""The page's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aiohttp import web

_FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def routes() -> list[web.RouteDef]:
    """The page at ``/``, what it is made of under ``/assets/``. Only names that are there when the server starts."""
    files = {path.name: _file(path) for path in _FOLDER.iterdir() if path.suffix in _TYPES}

    async def page(_: web.Request) -> web.Response:
        return _answer(*files["index.html"])

    async def asset(request: web.Request) -> web.Response:
        found = files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _answer(*found)

    return [web.get("/", page), web.get("/assets/{name}", asset)]


def _file(path: Path) -> tuple[str, str]:
    return path.read_text(encoding="utf-8"), _TYPES[path.suffix]


def _answer(text: str, kind: str) -> web.Response:
    answer = web.Response(text=text, content_type=kind)
    answer.enable_compression()
    return answer
