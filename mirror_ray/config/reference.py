"""The tables of ``docs/configuration.md`` and ``schema.json``, made from the rows of ``keys`` and the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic.fields import FieldInfo

from mirror_ray.config import keys as table
from mirror_ray.config.base import field_path
from mirror_ray.config.keys import ConfigKey, KeyUse
from mirror_ray.config.settings import ClusterSettings, NativeFlow, SystemSettings

#: The groups of keys, by where they are written in the file.
SCOPES: tuple[tuple[str, Sequence[ConfigKey]], ...] = (
    ("`KEY`, top of the file", table.DRIVER_KEYS),
    ("`KEY` for all flows, `A->B.KEY` for one", table.FLOW_KEYS),
    ("`KEY` for all clusters, `A.KEY` for one", table.CLUSTER_KEYS),
    ("`KEY` for the schema registries of all clusters, `A.KEY` for one", table.REGISTRY_KEYS),
    ("`A.consumer.KEY` (source)", table.CONSUMER_KEYS),
    ("`B.producer.KEY` (target), `A->B.producer.override.KEY`", table.PRODUCER_KEYS),
    ("`A.admin.KEY`", table.ADMIN_KEYS),
    ("`B.KEY` (MM2's Connect worker)", table.WORKER_KEYS),
)


def our_default(key: ConfigKey) -> str:
    """The default of a key as it is written in the file; Kafka's, where the field belongs to a cluster's connection."""
    if key.silent:
        return key.silent
    if key.field == "enabled":
        # A flow of `mm2.properties` exists before it is enabled.
        return "false"
    section, _, rest = key.field.partition(".")
    if section == "cluster":
        return _as_text(field_path(ClusterSettings, rest.split(".")).field)
    model = next((model for model in (NativeFlow, SystemSettings) if section in model.model_fields), None)
    return key.default if model is None else _as_text(field_path(model, key.field.split(".")).field)


def _as_text(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, dict)):
        return ", ".join(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None or value == {} else str(value)


def keys_table() -> str:
    """Every key that is used, ignored or refused, as Markdown."""
    parts: list[str] = []
    for scope, rows in SCOPES:
        # Each client repeats the cluster's keys; they are listed once.
        own = [row for row in rows if rows is table.CLUSTER_KEYS or row not in table.CLUSTER_KEYS]
        parts += [f"### {scope}", ""]
        parts += _table(("key", "native field", "default", ""), _used_rows(own))
        parts += _table(("ignored", "why"), _grouped(own, KeyUse.IGNORED))
        parts += _table(("refused", "instead"), _grouped(own, KeyUse.REFUSED))
    return "\n".join(parts).rstrip()


def deviations_table() -> str:
    """Every default that differs from MM2's, as Markdown."""
    rows = [row for _, scope in SCOPES for row in scope if row.deviates]
    unique = {(row.name, row.field): row for row in rows}.values()
    lines = [(f"`{row.name}`", _cell(row.default), _cell(our_default(row)), row.deviates) for row in unique]
    return "\n".join(_table(("key", "MM2", "here", "why"), lines)).rstrip()


def _used_rows(rows: Iterable[ConfigKey]) -> list[tuple[str, ...]]:
    used = [row for row in rows if row.use is KeyUse.USED]
    return [(f"`{row.name}`", f"`{row.field}`" if row.field else "", _cell(our_default(row)), row.text) for row in used]


def _grouped(rows: Iterable[ConfigKey], use: KeyUse) -> list[tuple[str, ...]]:
    by_text: dict[str, list[str]] = {}
    for row in rows:
        if row.use is use:
            allowed = " or ".join(f"`{value}`" if value else "empty" for value in row.accepted)
            by_text.setdefault(row.text, []).append(f"`{row.name}`" + (f" (other than {allowed})" if allowed else ""))
    return [(", ".join(names), text) for text, names in by_text.items()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows),
        "",
    ]


def _cell(text: str) -> str:
    return f"`{text}`" if text else ""


def fill(document: str) -> str:
    """Put the current tables between the markers of a Markdown document."""
    for name, content in (("keys", keys_table()), ("defaults", deviations_table())):
        pattern = re.compile(rf"(<!-- {name}: generated -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        match = pattern.search(document)
        if match is not None:
            document = f"{document[: match.start()]}{match[1]}\n{content}\n\n{match[2]}{document[match.end() :]}"
    return document


def main() -> None:
    """Write ``schema.json`` and the tables of ``docs/configuration.md`` anew.

    Run it by ``python -m mirror_ray.config.reference``.
    """
    from mirror_ray.config.native import json_schema

    here = Path(__file__).parent
    (here / "schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n")
    docs = here.parents[1] / "docs" / "configuration.md"
    docs.write_text(fill(docs.read_text()))


if __name__ == "__main__":
    main()
