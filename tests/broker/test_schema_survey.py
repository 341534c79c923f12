"""``plan`` and ``drift`` of a flow that syncs schemas: what they say of two registries, which they leave alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from mirror_ray.cli.app import app
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.internal_topics import schemas_topic
from mirror_ray.records.schema_id_records import IdsDecision, IdsWay, IdTranslation, SchemaIdEntry, encode
from mirror_ray.registry.comparison import Conflict, Found, Missing
from mirror_ray.registry.schema import SubjectVersion
from mirror_ray.registry.survey import Refused, SchemaSurvey
from mirror_ray.registry.survey_reader import survey_flow
from tests.broker.test_schema_mirror import fill, mirror, pair, record, subject
from tests.broker.test_schemas import settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.kafka import Message, create_topic, produce
from tests.support.registry_http import ask, avro, register
from tests.support.registry_proxy import RegistryProxy

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("no_schema_ids")]


@pytest.fixture
def target_registry() -> Iterator[ImportRegistry]:
    """The target's; ``import_registry`` is the source's."""
    with ImportRegistry("target") as registry:
        yield registry


class Commands:
    """The commands, of a flow A->B whose clusters have registries."""

    def __init__(self, clusters: Clusters, path: Path, topic: str, *urls: str, **schemas: str) -> None:
        lines = [
            "clusters = A, B",
            "A->B.enabled = true",
            f"A->B.topics = {topic}",
            "heartbeats.replication.enabled = false",
        ]
        for alias, cluster, url in zip("AB", (clusters.a, clusters.b), urls, strict=True):
            lines += [f"{alias}.bootstrap.servers = {cluster.bootstrap}", f"{alias}.schema.registry.url = {url}"]
        lines += [f"A->B.{key.replace('_', '.')} = {value}" for key, value in schemas.items()]
        self.topic, self.config = topic, path / "mm2.properties"
        self.config.write_text("\n".join(lines))

    def plan(self) -> tuple[int, dict[str, Any]]:
        """Exit code and document."""
        result = self.run("plan", self.config, "-o", "json")
        return result.exit_code, json.loads(result.stdout or "{}")

    def drift(self, *options: str) -> tuple[int, list[dict[str, Any]]]:
        """Exit code, and what is found of schemas, and of what is unknown."""
        options = (*options, "--ignore", "extra")
        result = self.run("drift", "A->B", "--config", self.config, "--name", "nobody", "-o", "json", *options)
        found = json.loads(result.stdout)["findings"]
        return result.exit_code, [one for one in found if one["kind"] in ("schema", "unknown")]

    def text(self, *words: object) -> str:
        """What is printed."""
        output: str = self.run(*words).output
        return output

    def run(self, *words: object) -> Any:
        """A command line's result."""
        return CliRunner().invoke(app, [str(word) for word in words])


def by_what(findings: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Findings by what they are of."""
    return {one["what"]: one for one in findings}


async def survey(
    clusters: Clusters,
    source: ImportRegistry | ApicurioRegistry,
    target: ImportRegistry | ApicurioRegistry,
    **schemas: Any,
) -> SchemaSurvey:
    """Both registries, compared."""
    config = settings(clusters, "none", source.url, target.url, **schemas)
    return await survey_flow(config, config.flows[0], "test")


def verdicts(found: SchemaSurvey, *kinds: type) -> set[SubjectVersion]:
    """The versions of which this was said."""
    return {one.source.at for one in found.versions if isinstance(one.verdict, kinds)}


@pytest.mark.parametrize("way", ["same", "translated"])
async def test_what_is_foretold_is_what_the_mirror_does(
    clusters: Clusters, import_registry: ImportRegistry, target_registry: ImportRegistry, way: IdsWay
) -> None:
    """Registered, refused and left alone; afterwards nothing is missing, and levels are alike."""
    async with pair(import_registry.url, target_registry.url) as (here, there):
        await here.register(subject("hidden"), record("hidden", "h"))
        await fill(here)
        await here.register(subject("user"), record("User", "u", other="hidden"))
        await here.register(subject("other"), record("Mine", "m"))
        await there.register(subject("other"), record("Theirs", "t"))
        given = {"ids": way, "subjects_exclude": ("hidden",)}
        before = await survey(clusters, import_registry, target_registry, **given)
        found = mirror(here, there, way, exclude="hidden")
        assert set(await found.mirror_all()) == verdicts(before, Missing)
        assert set(found.problems) == verdicts(before, Conflict, Refused)
        after = await survey(clusters, import_registry, target_registry, **given)
        assert verdicts(after, Found) == verdicts(before, Missing)
        assert verdicts(after, Conflict, Refused) == set(found.problems)
        assert [one.deleted_on for one in after.versions] == [None] * len(after.versions)
        assert {str(one.target): (one.on_source, one.differ) for one in after.levels} == {
            "A.orders-value": ("FULL", False),
            "Money": ("BACKWARD", False),
        }


async def test_a_registry_without_a_listing(
    clusters: Clusters, import_registry: ImportRegistry, apicurio: ApicurioRegistry, subject_prefix: str
) -> None:
    """Each subject is asked for, and each id; what the target finds by its own comparison is there."""
    names = [f"{subject_prefix}{name}" for name in ("a-value", "b", "c")]
    ids = [register(apicurio.url, name, avro(f"R{number}", "x"))[1]["id"] for number, name in enumerate(names)]
    for number, schema_id in enumerate([ids[0], ids[1] + 1, ids[2] + 1]):
        ask(import_registry.url, "PUT", f"/mode/own{number}", {"mode": "IMPORT"})
        register(import_registry.url, f"own{number}", avro("Own", "x", f"y{number}"), id=schema_id, version=1)
    given = {"subjects": (f"{subject_prefix}.*",)}
    found = await survey(clusters, apicurio, import_registry, ids="same", **given)
    assert {str(at.subject) for at in verdicts(found, Conflict)} >= {names[0]}
    assert verdicts(found, Missing) | verdicts(found, Conflict) == {SubjectVersion(subject(name), 1) for name in names}
    # Apicurio keeps no metadata, and every space.
    source_text = avro("R", "x").replace(" ", "")
    register(import_registry.url, names[1], source_text, metadata={"properties": {"owner": "me"}})
    register(apicurio.url, f"{subject_prefix}d", source_text)
    renamed = {names[1]: f"{subject_prefix}d"}
    found = await survey(clusters, import_registry, apicurio, subjects=(names[1],), subjects_map=renamed)
    assert found.ids.way == "translated"
    assert verdicts(found, Found) == {SubjectVersion(subject(names[1]), 1)}


class Scene(NamedTuple):
    """A flow with much that is not as it should be in the target's registry."""

    topic: str
    commands: Commands
    #: The target's registry, and what the commands reach it by.
    target: ImportRegistry
    proxy: RegistryProxy

    def writes(self) -> set[str]:
        """What the commands asked for that is no reading."""
        return {path for path in self.proxy.answers.requests if path.split()[0] != "GET"}


@pytest.fixture
def scene(
    clusters: Clusters,
    make_topic: TopicMaker,
    import_registry: ImportRegistry,
    target_registry: ImportRegistry,
    tmp_path: Path,
) -> Iterator[Scene]:
    """A conflict, one that is missing, levels and deletions that differ; ids that came to mean something else."""
    topic, source, target = make_topic(clusters.a), import_registry.url, target_registry.url
    b = clusters.b.confluent_config()
    create_topic(b, f"A.{topic}", 1)
    for fields in ("a", "ab", "abc"):
        register(source, f"{topic}-value", avro("Order", *fields))
    register(source, "other", avro("Mine", "x"))
    register(source, "own", avro("Own", "x"))
    register(source, "excluded", avro("Excluded", "x"))
    ask(source, "PUT", f"/config/{topic}-value", {"compatibility": "FULL"})
    for fields in ("a", "ab"):
        register(target, f"A.{topic}-value", avro("Order", *fields))
    register(target, "other", avro("Theirs", "x"))
    ask(source, "DELETE", f"/subjects/{topic}-value/versions/1")
    ask(target, "DELETE", f"/subjects/A.{topic}-value/versions/2")
    entries: tuple[SchemaIdEntry, ...] = (
        IdsDecision("translated"),
        IdTranslation(1, 1),
        IdTranslation(2, 3),
        IdTranslation(4, 77),
        IdTranslation(6, 1),
    )
    create_topic(b, schemas_topic("A"), 1)
    produce(b, schemas_topic("A"), [Message(value, key) for key, value in map(encode, entries)])
    with RegistryProxy(target) as proxy:
        urls = source, proxy.url
        commands = Commands(clusters, tmp_path, topic, *urls, schemas_subjects_exclude="excluded")
        yield Scene(topic, commands, target_registry, proxy)


def test_plan_before_anything_is_there(
    clusters: Clusters,
    make_topic: TopicMaker,
    import_registry: ImportRegistry,
    apicurio: ApicurioRegistry,
    tmp_path: Path,
) -> None:
    """What will decide how ids are copied is named, and not tried; the topic of ids is among what is created."""
    register(import_registry.url, "own", avro("Own", "x"))
    with ImportRegistry("target") as target:
        code, plan = Commands(clusters, tmp_path, make_topic(clusters.a), import_registry.url, target.url).plan()
        assert {path.split()[0] for path in target.requests()["by_path"]} == {"GET"}
    flow = plan["flows"][0]
    assert (code, flow["schemas"]["ids"], flow["schemas"]["to_register"]) == (0, None, 1)
    assert "mode IMPORT" in flow["schemas"]["ids_why"]
    created = {change["remote_topic"]: change["configs"] for change in flow["changes"]}
    assert created[schemas_topic("A")] == {"cleanup.policy": "compact"}
    rights = {right["resource"]: right["operations"] for right in plan["rights"]}
    assert rights[schemas_topic("A")] == ["READ", "WRITE", "DESCRIBE"]
    register(apicurio.url, "filled", avro("Filled", "x"))
    commands = Commands(clusters, tmp_path, "none", import_registry.url, apicurio.url)
    shown = commands.text("plan", commands.config)
    assert "schemas of A->B: ids translated (the target's registry has subjects); 1 versions of 1 subjects" in shown


def test_plan_counts_and_names_what_is_refused(scene: Scene) -> None:
    """Exit 1; nothing is changed."""
    code, plan = scene.commands.plan()
    schemas = plan["flows"][0]["schemas"]
    assert (code, schemas["ids"], schemas["ids_why"]) == (1, "translated", "decided when the flow began")
    counts = {key: schemas[key] for key in ("subjects", "versions", "there", "to_register", "to_register_subjects")}
    assert counts == {"subjects": 3, "versions": 5, "there": 2, "to_register": 2, "to_register_subjects": 2}
    assert (schemas["deleted"], schemas["deleted_on_one_side"]) == (1, 2)
    conflict, other, nobody, excluded = schemas["refused"]
    for part in ("schema other version 1", "Mine", "Theirs", "schemas.subjects.map"):
        assert part in conflict
    assert "id 2 on the source became id 3, which is another schema" in other
    assert "id 4 on the source became id 77, which is no schema" in nobody
    assert "id 6 on the source became id 1, which is another schema" in excluded
    assert [right["checked"] for right in plan["rights"] if right["resource"] == schemas_topic("A")] == [True]
    shown = scene.commands.text("plan", scene.commands.config)
    assert "schemas of A->B: ids translated (decided when the flow began); 2 versions of 2 subjects" in shown
    assert "refused: A->B: schema other version 1: " in shown
    assert scene.writes() == {f"POST /subjects/A.{scene.topic}-value?deleted=true"}


def test_drift_of_schemas_is_found_and_levels_are_set(scene: Scene) -> None:
    """Each thing is named, with what to do; only what is asked for is changed, and audited."""
    commands, subject_there = scene.commands, f"A.{scene.topic}-value"
    code, found = commands.drift()
    every = by_what(found)
    level = every[f"compatibility of {subject_there}"]
    assert (code, level["expected"], level["found"], level["remedy"]) == (1, "FULL", "BACKWARD", "set FULL")
    assert "schemas.subjects.map" in every["other"]["advice"]
    assert (every["own"]["expected"], every["own"]["found"]) == ("own version 1, id 5", None)
    assert {what: (one["expected"], one["found"]) for what, one in every.items() if "version" in what} == {
        f"{subject_there} version 1": ("soft-deleted", "there"),
        f"{subject_there} version 2": ("there", "soft-deleted"),
    }
    assert {"id 1", "id 3", "id 77", subject_there} < every.keys()
    assert len(every) == len(found) == 9
    assert by_what(commands.drift(scene.topic)[1]).keys() == every.keys() - {"other", "own", "id 1", "id 77"}
    assert scene.writes() == {f"POST /subjects/{subject_there}?deleted=true"}
    scene.proxy.answers.requests.clear()
    assert commands.drift("--ignore", "schema") == (0, [])
    assert not scene.proxy.answers.requests
    assert commands.drift("--reconcile", "--yes")[0] == 1
    left = by_what(commands.drift()[1])
    assert left.keys() == every.keys() - {f"compatibility of {subject_there}"}
    assert ask(scene.target.url, "GET", f"/config/{subject_there}")[1]["compatibilityLevel"] == "FULL"
    audited = commands.text("audit", "A->B", "--config", commands.config, "--kind", "set_compatibility")
    assert f"schema {subject_there}" in audited


def test_a_registry_that_does_not_answer(scene: Scene) -> None:
    """To ``drift`` it is unknown, and the rest is shown; ``plan`` ends as with a cluster, or shows the rest, too."""
    commands = scene.commands
    scene.proxy.down()
    code, found = commands.drift()
    assert [(one["kind"], one["what"]) for one in found] == [("unknown", "schemas")]
    assert "the schema registry of B does not answer" in found[0]["advice"]
    assert commands.drift("--ignore", "schema") == (0, [])
    assert "the schema registry of B does not answer" in commands.text("plan", commands.config)
    scene.proxy.up()
    scene.proxy.nonsense()
    code, plan = commands.plan()
    assert (code, plan["flows"][0]["schemas"]) == (1, None)
    assert "schemas are not mirrored: " in plan["flows"][0]["refused"][0]


def test_both_registries_that_do_not_answer_are_named(clusters: Clusters, tmp_path: Path) -> None:
    """By one error, as clusters are; the command ends as for these."""
    commands = Commands(clusters, tmp_path, "none", "http://127.0.0.1:1", "http://127.0.0.1:1")
    result = commands.run("plan", commands.config)
    assert result.exit_code == 3
    for alias in "AB":
        assert f"the schema registry of {alias} does not answer" in result.output
