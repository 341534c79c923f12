"""Serves a registry: ``python -m tests.support.import_registry.server PORT JOURNAL [USER:PASSWORD]``.

What changed it is in the journal, a request a line, and is done again at the next start, as a registry reads its topic.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from tests.support.import_registry.rules import Rules
from tests.support.import_registry.store import RefusedError
from tests.support.registry_faults import FaultyAnswers, make_app

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class JournaledRules:
    """Rules whose state outlives the process."""

    def __init__(self, journal: Path) -> None:
        self._rules = Rules()
        if journal.exists():
            for line in journal.read_text().splitlines():
                method, target, body = json.loads(line)
                self._ask(method, target, body)
        # A line at a time, and each goes to the kernel: a killed process loses none that was acknowledged.
        self._journal = journal.open("a", buffering=1)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        try:
            text = await request.text()
            body = json.loads(text) if text else {}
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return _answer({"error_code": 400, "message": "Malformed JSON"}, 400)
        method, target = request.method, request.raw_path
        try:
            found = self._ask(method, target, body)
        except RefusedError as error:
            return _answer({"error_code": error.code, "message": str(error)}, error.status)
        if method != "GET":
            self._journal.write(json.dumps([method, target, body]) + "\n")
        return _answer(found)

    def _ask(self, method: str, target: str, body: Any) -> Any:
        path, _, query = target.partition("?")
        pieces = [unquote(piece) for piece in path.strip("/").split("/") if piece]
        return self._rules.answer(method, pieces, dict(parse_qsl(query)), body)


def _answer(found: Any, status: int = 200) -> web.Response:
    text = found if isinstance(found, str) else json.dumps(found)
    return web.Response(status=status, text=text, content_type=_MEDIA_TYPE)


def main(port: str, journal: str, user_info: str = "") -> None:
    """Serve until a signal."""
    answers, rules = FaultyAnswers(user_info), JournaledRules(Path(journal))
    web.run_app(make_app(answers, rules), host="127.0.0.1", port=int(port), access_log=None, print=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
