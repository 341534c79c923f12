"""What Confluent's registry answers to a request; without compatibility checks, exporters and data encryption keys.

By its source and its documentation: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.import_registry.registering import (
    KINDS,
    content_of,
    delete_subject,
    delete_version,
    register,
    set_mode,
)
from tests.support.import_registry.store import DEFAULT_CONTEXT, RefusedError, Store, Subject, Version

#: As ``schema.search.max.limit``.
_MOST_SCHEMAS = 1000
_LEVELS = {"NONE", *(f"{way}{more}" for way in ("BACKWARD", "FORWARD", "FULL") for more in ("", "_TRANSITIVE"))}
_ALL = Subject(DEFAULT_CONTEXT, "")
#: These take a list's subjects by a prefix.
_LISTS = {"schemas", "subjects"}


class Rules:
    """A registry without HTTP. An answer depends on the requests before it alone."""

    def __init__(self) -> None:
        self.store = Store()

    def answer(self, method: str, path: Sequence[str], query: Mapping[str, str], body: Any) -> Any:
        """The JSON that a request is answered; ``path``: its pieces, decoded.

        Raises:
            RefusedError: The answer is an error.
        """
        pieces, parameters = _without_context(list(path), dict(query))
        match (method, *pieces):
            case ("GET",):
                return {}
            case ("GET", "contexts"):
                named = {one.context for one in self.store.subjects if self.store.versions(one, deleted=True)}
                return [DEFAULT_CONTEXT, *sorted(named - {DEFAULT_CONTEXT})]
            case (_, "subjects", *rest):
                return self._subjects(method, rest, parameters, body)
            case ("GET", "schemas", *rest):
                return self._schemas(rest, parameters)
            case (_, "config", *rest) if len(rest) <= 1:
                return self._config(method, Subject.parse(*rest) if rest else _ALL, parameters, body)
            case (_, "mode", *rest) if len(rest) <= 1:
                return self._mode(method, Subject.parse(*rest) if rest else _ALL, parameters, body)
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _subjects(self, method: str, path: list[str], query: dict[str, str], body: Any) -> Any:
        if not path and method == "GET":
            return _page([str(one) for one in self._listed(query, ":*:")], query)
        subject, store = Subject.parse(path[0] if path else ""), self.store
        deleted = query.get("deleted") == "true"
        match (method, *path[1:]):
            case ("POST",):
                self._known(subject, deleted=deleted)
                content = content_of(store, subject, body)
                for version in reversed(store.versions(subject, deleted=deleted)):
                    if version.content == content:
                        return version.fields
                raise RefusedError(404, 40403, "Schema not found")
            case ("DELETE",):
                self._check_writable(subject)
                return delete_subject(store, subject, permanent=query.get("permanent") == "true")
            case (_, "versions", *rest):
                return self._versions(method, subject, rest, query, body)
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _versions(self, method: str, subject: Subject, path: list[str], query: dict[str, str], body: Any) -> Any:
        deleted = query.get("deleted") == "true"
        match (method, *path):
            case ("GET",):
                self._known(subject, deleted=deleted or query.get("deletedOnly") == "true")
                every = self.store.versions(subject, deleted=True)
                return _page([one.number for one in every if _wanted(one, query)], query)
            case ("POST",):
                version = register(self.store, subject, body)
                return {key: value for key, value in version.fields.items() if key != "subject"}
            case ("GET", number):
                return self._version(subject, number, deleted=deleted).fields
            case ("GET", number, "schema"):
                return self._version(subject, number, deleted=deleted).content.text
            case ("GET", number, "referencedby"):
                version = self._version(subject, number, deleted=True)
                return sorted({one.id for one in self.store.referring(subject, version.number, deleted=deleted)})
            case ("DELETE", number):
                version = self._version(subject, number, deleted=True)
                self._check_writable(subject)
                return delete_version(self.store, version, permanent=query.get("permanent") == "true")
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _schemas(self, path: list[str], query: dict[str, str]) -> Any:
        match path:
            case []:
                found = [
                    self.store.versions(one, deleted=True) for one in self._listed({**query, "deleted": "true"}, "")
                ]
                wanted = [[version for version in versions if _wanted(version, query)] for versions in found]
                if query.get("latestOnly") == "true":
                    wanted = [versions[-1:] for versions in wanted]
                limit = int(query.get("limit", -1))
                limit = min(limit, _MOST_SCHEMAS) if limit > 0 else _MOST_SCHEMAS
                chosen = [version for versions in wanted for version in versions]
                return [version.fields for version in _page(chosen, {**query, "limit": str(limit)})]
            case ["types"]:
                return list(KINDS)
            case ["ids", number, *rest] if number.isdigit() and rest in ([], ["schema"], ["subjects"], ["versions"]):
                return self._by_id(int(number), "".join(rest), query)
            case ["guids", guid, *rest] if rest in ([], ["ids"]):
                return self._by_guid(guid, ids=bool(rest))
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _by_id(self, number: int, what: str, query: dict[str, str]) -> Any:
        """In the context of ``subject``; where it names none: in the default one, else in one that has the subject."""
        subject = Subject.parse(query.get("subject", ""))
        contexts = [subject.context]
        if subject.name and subject.context == DEFAULT_CONTEXT:
            contexts += sorted(one.context for one in self.store.subjects if one.name == subject.name)
        for context in contexts:
            content = self.store.content_of(context, number)
            if content is not None:
                break
        else:
            raise RefusedError(404, 40403, f"Schema {number} not found")
        if not what:
            return content.fields
        if what == "schema":
            return content.text
        places = sorted(self.store.contexts[context].at[number])
        versions = [self.store.subjects[one][version] for one, version in places]
        found = [one for one in versions if _wanted(one, query) and subject.name in {"", one.subject.name}]
        if what == "subjects":
            return list(dict.fromkeys(str(one.subject) for one in found))
        return [{"subject": str(one.subject), "version": one.number} for one in found]

    def _by_guid(self, guid: str, *, ids: bool) -> Any:
        every = [version for one in list(self.store.subjects) for version in self.store.versions(one, deleted=True)]
        found = [version for version in every if version.content.guid == guid]
        if not found:
            raise RefusedError(404, 40403, f"Schema {guid} not found")
        if not ids:
            return found[0].content.fields
        pairs = sorted({(version.subject.context, version.id) for version in found})
        return [{"context": context, "id": id_} for context, id_ in pairs]

    def _config(self, method: str, subject: Subject, query: dict[str, str], body: Any) -> Any:
        configs = self.store.configs
        if method == "PUT":
            level = body.get("compatibility", "BACKWARD")
            if level not in _LEVELS:
                raise RefusedError(422, 42203, "Invalid compatibility level. Valid values are none, backward, ...")
            self._check_writable(subject)
            configs[subject] = {**configs.get(subject, {}), **body}
            return configs[subject]
        found = configs.get(subject)
        if method == "GET" and query.get("defaultToGlobal") == "true":
            found = self.store.in_scope(subject, configs) or {}
        if found is None and subject == _ALL:
            found = {}
        if found is None:
            code, what = (40401, "not found.") if method == "DELETE" else (40408, _NOT_CONFIGURED % "compatibility")
            raise RefusedError(404, code, f"Subject '{subject}' {what}")
        if method == "DELETE":
            configs.pop(subject, None)
        more = {key: value for key, value in found.items() if key != "compatibility"}
        return {"compatibilityLevel": found.get("compatibility", "BACKWARD"), **more}

    def _mode(self, method: str, subject: Subject, query: dict[str, str], body: Any) -> Any:
        modes = self.store.modes
        if method == "PUT":
            set_mode(self.store, subject, str(body.get("mode")).upper(), force=query.get("force") == "true")
            return body
        found = modes.get(subject, "READWRITE" if subject == _ALL else None)
        if method == "GET" and query.get("defaultToGlobal") == "true":
            found = self.store.in_scope(subject, modes) or "READWRITE"
        if found is None:
            code, what = (40401, "not found.") if method == "DELETE" else (40409, _NOT_CONFIGURED % "mode")
            raise RefusedError(404, code, f"Subject '{subject}' {what}")
        if method == "DELETE":
            modes.pop(subject, None)
        return {"mode": found}

    def _listed(self, query: dict[str, str], default_prefix: str) -> list[Subject]:
        prefix = query.get("subjectPrefix", default_prefix)
        everywhere, name = prefix.startswith(":*:"), Subject.parse(prefix.removeprefix(":*:"))
        return [
            one
            for one in sorted(self.store.subjects)
            if (everywhere or one.context == name.context)
            and one.name.startswith(name.name)
            and self._is_listed(one, query)
        ]

    def _is_listed(self, subject: Subject, query: dict[str, str]) -> bool:
        if query.get("deletedOnly") == "true":
            return not self.store.versions(subject) and bool(self.store.versions(subject, deleted=True))
        return bool(self.store.versions(subject, deleted=query.get("deleted") == "true"))

    def _known(self, subject: Subject, *, deleted: bool) -> None:
        if not self.store.versions(subject, deleted=deleted):
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")

    def _version(self, subject: Subject, number: str, *, deleted: bool) -> Version:
        if number not in {"latest", "-1"} and not number.isdigit():
            raise RefusedError(422, 42202, f"The specified version '{number}' is not a valid version id.")
        every = self.store.versions(subject, deleted=True)
        if not every:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        for version in reversed(every):
            if (deleted or not version.deleted) and number in {"latest", "-1", str(version.number)}:
                return version
        raise RefusedError(404, 40402, f"Version {number} not found.")

    def _check_writable(self, subject: Subject) -> None:
        if self.store.in_scope(subject, self.store.modes) in {"READONLY", "READONLY_OVERRIDE"}:
            raise RefusedError(422, 42205, f"Subject {subject} in context {subject.context} is in read-only mode")


_NOT_CONFIGURED = "does not have subject-level %s configured"


def _without_context(path: list[str], query: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """``/contexts/X/...`` in the form that names the context in subjects."""
    match path:
        case ["contexts", context, first, *rest]:
            qualified = f":.{context.strip(':').removeprefix('.')}:"
            if first in _LISTS and not rest:
                return [first], {**query, "subjectPrefix": qualified + query.get("subjectPrefix", "")}
            if first == "schemas":
                return [first, *rest], {**query, "subject": qualified + query.get("subject", "")}
            subject = rest[0] if rest else ""
            return [first, subject if subject.startswith(":.") else qualified + subject, *rest[1:]], query
    return path, query


def _wanted(version: Version, query: Mapping[str, str]) -> bool:
    if query.get("deletedOnly") == "true":
        return version.deleted
    return not version.deleted or query.get("deleted") == "true"


def _page(found: Iterable[Any], query: Mapping[str, str]) -> list[Any]:
    offset, limit = int(query.get("offset", 0)), int(query.get("limit", -1))
    return list(found)[offset : offset + limit if limit >= 0 else None]
