"""Every change of a cluster goes through a trail: read from the code, so that a new one can't be forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from confluent_kafka.admin import AdminClient

_ROOT = Path(__file__).parents[3]
#: They make clusters of their own, for a time, and are no part of a system.
_TOOLS = ("mirror_ray/lab/",)
_LOOKS = ("describe_", "list_", "poll", "consumer_", "set_sasl")
#: What Kafka's own client can change.
_CHANGES = {
    name for name in dir(AdminClient) if not name.startswith(("_", *_LOOKS)) and callable(getattr(AdminClient, name))
}
_CLIENT = "mirror_ray/kafka/admin_client.py"
_EDITING, _ACLS, _GROUPS = (
    "mirror_ray/kafka/topic_editor.py",
    "mirror_ray/kafka/acls.py",
    "mirror_ray/kafka/group_offsets.py",
)
#: Where a request that changes something is sent, and by which function; ``admin``'s are asked by ``editing`` alone,
#: or else only validate.
_ALLOWED = {
    ("mirror_ray/kafka/admin.py", "_create", "create_topics"),
    ("mirror_ray/kafka/admin.py", "_extend", "create_partitions"),
    (_EDITING, "act", "incremental_alter_configs"),
    (_EDITING, "act", "delete_topics"),
    (_EDITING, "act", "delete_records"),
    (_ACLS, "act", "create_acls"),
    (_ACLS, "act", "delete_acls"),
}


@cache
def _modules() -> list[tuple[str, ast.Module]]:
    paths = [path for package in ("mirror_ray", "actors") for path in sorted((_ROOT / package).rglob("*.py"))]
    names = {path.relative_to(_ROOT).as_posix(): path for path in paths}
    return [(name, ast.parse(path.read_text())) for name, path in names.items() if not name.startswith(_TOOLS)]


def _inside(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node, with the function that it is in."""
    for node in ast.iter_child_nodes(tree):
        within = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield within, node
        yield from _inside(node, within)


def _users(name: str) -> set[str]:
    """The modules that name something."""
    return {
        module
        for module, tree in _modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
    }


def test_the_client_can_change_what_is_looked_for() -> None:
    """Should its methods get other names, this test has to learn them."""
    assert {change for _, _, change in _ALLOWED} <= _CHANGES


def test_kafkas_admin_client_is_told_to_change_something_in_one_place() -> None:
    """By functions that a trail is around, and by nobody else."""
    found = {
        (module, function, node.attr)
        for module, tree in _modules()
        for function, node in _inside(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in _CHANGES
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "_client"
    }
    assert found == _ALLOWED
    assert _users("AdminClient") == {_CLIENT}
    assert _users("CollectableAdminClient") == {_CLIENT, "mirror_ray/kafka/admin_connection.py"}
    assert _users("_create") & {module for module in _users("_create") if module.startswith("mirror_ray/kafka")} == {
        "mirror_ray/kafka/admin.py",
        _EDITING,
    }
    assert _users("_extend") == {"mirror_ray/kafka/admin.py", _EDITING}


def test_groups_are_committed_for_in_one_place() -> None:
    """The request itself is written and sent there, and what sends it without a trail is asked by it alone."""
    assert _users("send_commits") == {_GROUPS}
    assert _users("encode_offset_commit") == {_GROUPS}


def test_no_other_request_of_the_protocol_changes_anything() -> None:
    """Requests that are sent by hand, by the names of their schemas."""
    schemas = {
        node.args[0].value
        for _, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_entity_module"
        if isinstance(node.args[0], ast.Constant)
    }
    assert schemas
    changing = ("create_", "delete_", "alter_", "offset_commit", "offset_delete", "txn_offset", "update_", "elect_")
    assert not [schema for schema in schemas if str(schema).startswith(changing)]


def test_little_is_left_unrecorded() -> None:
    """The log itself, what only reads, and the demonstration's own topics."""
    assert _users("UNRECORDED") == {
        "mirror_ray/cli/audit.py",
        "mirror_ray/cli/demo.py",
        "mirror_ray/failover/run.py",
        "mirror_ray/kafka/audit_topics.py",
        "mirror_ray/kafka/audit_log.py",
        "mirror_ray/kafka/audit_logs.py",
        "mirror_ray/topics/cluster_snapshot.py",
    }
