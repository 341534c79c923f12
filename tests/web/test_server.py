"""The gateway's server: what it shows, whom it lets act."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from mirror_ray.config.gateway import GATEWAY_PORT, GatewaySettings
from mirror_ray.model.errors import ConfigError
from mirror_ray.web.answer_cache import CachedAnswer
from mirror_ray.web.server import application, serving
from tests.support.factories import schema_status
from tests.unit.observe.values import picture
from tests.web.fakes import TOKEN, Clock, FakeSystem, Site, kept, site


async def test_everything_that_is_seen_is_json(there: Site) -> None:
    """With the names of the command line's output."""
    status, found = await there.get("/api/v1/status")
    assert (status, found["name"], found["flows"][0]["flow"]) == (200, "mirror", "A->B")
    for name, count in (("topics", 1), ("partitions", 3), ("events", 1), ("gaps", 1), ("problems", 1)):
        status, found = await there.get(f"/api/v1/{name}")
        assert (status, len(found)) == (200, count), name
    assert (await there.get("/api/v1/replicators"))[1][0]["id"] == "mirror:replicator:1"
    assert (await there.get("/api/v1/groups")) == (200, [])


async def test_rows_are_chosen_by_flow_and_topic(there: Site) -> None:
    """And bounded."""
    there.system.seen = picture(topics=4, partitions=5)
    assert len((await there.get("/api/v1/partitions?topic=orders"))[1]) == 5
    assert (await there.get("/api/v1/partitions?flow=B-%3EA"))[1] == []
    assert len((await there.get("/api/v1/partitions?limit=7"))[1]) == 7
    status, refused = await there.get("/api/v1/partitions?limit=many")
    assert status == 400
    assert "'many'" in refused["error"]


async def test_versions_of_schemas_are_found_by_words_and_page_by_page(there: Site) -> None:
    """What has a problem first; how many there are is in a header; words are looked for in all that a row says."""
    others = (schema_status(flow="B->A", subject="clicks-value", kind="JSON", target_id=41),)
    conflict = schema_status(9, "payments-value", state="conflict", target_id=None, problem="Other at all")
    undeleted = schema_status(8, "payments-value", deleted=True, problem="can't be deleted")
    there.system.schemas_there = (*(schema_status(n) for n in range(1, 6)), *others, conflict, undeleted)

    async def found(query: str) -> tuple[list[tuple[str, int]], str]:
        async with there.session.get(f"{there.url}/api/v1/schemas{query}") as answer:
            assert answer.status == 200
            rows = [(row["subject"], row["version"]) for row in await answer.json()]
            return rows, answer.headers["Mirror-Ray-Total"]

    problems = [("payments-value", 8), ("payments-value", 9)]
    orders = [("orders-value", number) for number in range(1, 6)]
    assert await found("") == ([*problems, *orders, ("clicks-value", 1)], "8")
    assert await found("?limit=3&offset=1") == ([problems[1], *orders[:2]], "8")
    assert await found("?offset=100") == ([], "8")
    assert await found("?problems=true") == (problems, "2")
    assert await found("?flow=B-%3EA") == ([("clicks-value", 1)], "1")
    for words, rows in (("PAYMENTS", problems), ("other%20AT", problems[1:]), ("41", [("clicks-value", 1)])):
        assert (await found(f"?search={words}"))[0] == rows, words
    for wrong in ("offset=-1", "limit=0", "problems=perhaps", "offset=1e3"):
        status, refused = await there.get(f"/api/v1/schemas?{wrong}")
        assert status == 400
        assert wrong.split("=")[0] in refused["error"]
    assert there.system.schemas_asked == 1


async def test_without_a_flow_that_mirrors_schemas_the_next_step_is_said(there: Site) -> None:
    """In the system's words."""
    there.system.schemas_there = None
    status, refused = await there.get("/api/v1/schemas")
    assert status == 503
    assert "schema.registry.url" in refused["error"]


async def test_an_answer_that_takes_long_is_asked_for_rarely() -> None:
    """Twenty times as long as it took, and never more often than a quick one."""
    clock, took_s = Clock(), 0.0

    async def ask() -> float:
        clock.now_s += took_s
        return clock.now_s

    answer = CachedAnswer(ask, 2.0, clock, rest=20.0)
    first = await answer.get()
    clock.now_s += 1.9
    assert await answer.get() == first
    clock.now_s, took_s = clock.now_s + 0.2, 1.0
    second = await answer.get()
    clock.now_s += 19.9
    assert await answer.get() == second
    clock.now_s += 0.2
    assert await answer.get() != second


async def test_one_picture_serves_all_who_ask_at_the_same_time(there: Site) -> None:
    """The coordinator is not asked for each."""
    for _ in range(5):
        await there.get("/api/v1/status")
    assert there.system.asked == 1
    there.clock.now_s += 1.1
    await there.get("/api/v1/status")
    assert there.system.asked == 2


async def test_the_last_picture_is_shown_while_nobody_answers(there: Site) -> None:
    """With its age, and as a problem; ready it is not."""
    assert (await there.get("/api/v1/status"))[0] == 200
    assert (await there.get("/readyz"))[0] == 200
    there.system.absent = True
    there.clock.now_s += 11
    status, found = await there.get("/api/v1/status")
    assert (status, found["problems"][0]["kind"]) == (200, "coordinator_absent")
    assert (await there.get("/readyz"))[0] == 503
    assert (await there.get("/healthz"))[0] == 200
    async with there.session.get(there.url + "/metrics") as answer:
        text = await answer.text()
    assert "mirror_ray_coordinator_up 0.0" in text
    assert 'mirror_ray_problem{flow="",kind="coordinator_absent"' in text
    there.system.absent = False
    assert (await there.get("/api/v1/problems"))[1][0]["kind"] == "partition_stopped"


async def test_before_the_first_picture_it_says_what_to_do(there: Site) -> None:
    """No empty page that looks healthy."""
    there.system.absent = True
    status, found = await there.get("/api/v1/status")
    assert status == 503
    assert "mirror-ray status" in found["error"]


async def test_acts_reach_the_system(there: Site) -> None:
    """Of a flow, a topic, a partition; and the number of replicators."""
    for body in ({"flow": "A->B"}, {"flow": "A->B", "topic": "orders"}):
        assert (await there.act("/api/v1/pause", body))[0] == 200
    assert (await there.act("/api/v1/resume", {"flow": "A->B", "topic": "orders", "partition": 3}))[0] == 200
    assert (await there.act("/api/v1/scale", {"replicators": 3}))[0] == 200
    assert there.system.commands == [
        ("pause", "A->B", None, None),
        ("pause", "A->B", "orders", None),
        ("resume", "A->B", "orders", 3),
        ("scale", 3),
    ]
    assert set(there.system.operators) == {"page 127.0.0.1"}


async def test_the_audit_log_is_asked_by_what_is_wanted() -> None:
    """By time, flow, cluster, kinds and number; nonsense is refused."""
    async with site(token=None) as there:
        there.system.kept = (kept(id="1", time_ms=5), kept(id="2", time_ms=7), kept(id="3", time_ms=9, kind="pause"))
        status, found = await there.get("/api/v1/audit?since_ms=6&kind=create_topic&kind=set&cluster=B&limit=5")
        assert (status, [entry["id"] for entry in found]) == (200, ["2"])
        assert found[0]["after"] == "3 partitions"
        assert (await there.get("/api/v1/audit?since_ms=yesterday"))[0] == 400
        assert (await there.get("/api/v1/audit"))[1] == []


async def test_acts_need_the_token() -> None:
    """Without one in the configuration there are none at all."""
    async with site() as there:
        for token in (None, "", TOKEN[:-1], f"{TOKEN}2"):
            assert (await there.act("/api/v1/pause", {"flow": "A->B"}, token))[0] == 401
        assert (await there.act("/api/v1/pause", {"flow": "A->B"}, "schlüssel"))[0] == 401
        assert there.system.commands == []
    async with site(token=None) as there:
        status, refused = await there.act("/api/v1/pause", {"flow": "A->B"})
        assert (status, there.system.commands) == (403, [])
        assert "gateway.token" in refused["error"]


@pytest.mark.parametrize(
    "body",
    [{}, {"flow": 3}, {"flow": "A->B", "partition": 3}, {"flow": "A->B", "topic": "t", "partition": True}, [], "x"],
)
async def test_acts_that_say_nothing_clear_are_refused(there: Site, body: object) -> None:
    """And nothing is done."""
    status, refused = await there.act("/api/v1/pause", body)
    assert (status, there.system.commands) == (400, [])
    assert refused["error"]


async def test_what_the_system_refuses_is_said(there: Site) -> None:
    """In its words."""
    assert await there.act("/api/v1/scale", {"replicators": 0}) == (
        409,
        {"error": "scale needs at least one replicator"},
    )


async def test_a_foreign_form_can_not_act(there: Site) -> None:
    """A browser sends forms and plain text across origins without asking; JSON it does not."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "text/plain"}
    async with there.session.post(there.url + "/api/v1/pause", data='{"flow":"A->B"}', headers=headers) as answer:
        assert answer.status == 415
    assert there.system.commands == []


async def test_a_foreign_name_for_this_machine_is_refused(there: Site) -> None:
    """A page whose own name was made to point here sends that name."""
    assert (await there.get("/api/v1/status", headers={"Host": "evil.example:80"}))[0] == 403
    assert (await there.get("/api/v1/status", headers={"Host": "localhost:1"}))[0] == 200
    assert (await there.get("/api/v1/status", headers={"Host": "[::1]:1"}))[0] == 200


async def test_every_answer_has_safe_headers(there: Site) -> None:
    """Errors too."""
    for path, expected in (("/api/v1/status", 200), ("/nowhere", 404), ("/metrics", 200)):
        async with there.session.get(there.url + path) as answer:
            assert answer.status == expected
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Server"] == "mirror-ray"


async def test_hostile_names_come_through_as_data() -> None:
    """They are shown as text; here they are JSON like any other."""
    name = "<script>alert(1)</script>\"'\n\u2028"
    async with site() as there:
        there.system.seen = replace(picture(), topics=(replace(picture().topics[0], topic=name),))
        assert (await there.get("/api/v1/topics"))[1][0]["topic"] == name


async def test_the_stream_brings_pictures_and_each_event_once(there: Site) -> None:
    """The first frame has all that is kept; a second client that has seen them gets none of them."""
    for headers, events in (({}, 1), ({"Last-Event-ID": "1"}, 0)):
        async with there.session.get(there.url + "/api/v1/stream", headers=headers) as answer:
            lines = [(await answer.content.readline()).decode().rstrip() for _ in range(3)]
        assert lines[:2] == ["id: 1", "event: picture"]
        body = json.loads(lines[2].removeprefix("data: "))
        assert (body["up"], len(body["events"]), body["topics"][0]["topic"]) == (True, events, "orders")


async def test_the_default_port_gives_way_and_a_chosen_one_does_not() -> None:
    """Two systems on one machine have a page each; a port that was written down is meant."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with site() as there:
            chosen, idle = GatewaySettings(port=port), FakeSystem()
            app = application(there.cache, idle.client, idle.audit, chosen, there.access)
            with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*gateway.port"):
                async with serving(app, chosen, there.access):
                    pass
            default = GatewaySettings()
            app = application(there.cache, idle.client, idle.audit, default, there.access)
            async with serving(app, default, there.access) as first, serving(app, default, there.access) as second:
                assert first != second
                assert not second.endswith(f":{GATEWAY_PORT}")


async def test_the_token_sets_neither_code_nor_credentials(there: Site) -> None:
    """Whoever has it operates the system, and does not own the machine."""
    for key in ("transforms.chain", "policy.class", "gateway.token", "clusters.A.bootstrap_servers", "spark.executors"):
        status, refused = await there.act("/api/v1/set", {"flow": "A->B", "changes": {key: "x"}})
        assert (status, there.system.commands) == (400, [])
        assert key in refused["error"]


async def test_keys_are_set_and_what_that_touches_is_the_answer(there: Site) -> None:
    """A dry run says the same and is not done; what is no change is refused before the system hears of it."""
    body = {"flow": "A->B", "changes": {"topics.include": "orders", "topics.exclude": None}}
    status, answer = await there.act("/api/v1/set", {**body, "dry_run": True})
    assert (status, answer["done"], answer["text"]) == (200, False, "A->B configured (topics)")
    assert answer["flows"][0]["keys"][0]["effect"] == "topics"
    assert (await there.act("/api/v1/set", body))[1]["done"] is True
    assert [event[1:] for event in there.system.commands] == [
        ("A->B", body["changes"], reading) for reading in (True, False)
    ]
    for wrong in ({"changes": {"a": 1}}, {"flow": 3, "changes": {}}, {"changes": {}, "dry_run": "no"}):
        assert (await there.act("/api/v1/set", wrong))[0] == 400
