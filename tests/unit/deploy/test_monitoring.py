"""Dashboards, alert rules and recording rules under ``deploy/`` ask for what there is."""

from __future__ import annotations

import re
import subprocess

import pytest

from mirror_ray.observe.metrics import CATALOGUE, every_series
from mirror_ray.observe.problems import PROBLEM_KINDS
from mirror_ray.observe.reference import metrics_document
from tests.support.debian import program
from tests.support.monitoring import ALERTS, DASHBOARDS, PROMETHEUS, RECORDED, ROOT, alert_name, panels, rule_groups

_RUNBOOKS = ROOT / "docs/runbooks/alerts"

every_board = pytest.mark.parametrize("name", DASHBOARDS)


def _queries() -> list[str]:
    of_panels = [
        target["expr"] for board in DASHBOARDS.values() for panel in panels(board) for target in panel["targets"]
    ]
    variables = [variable["query"] for board in DASHBOARDS.values() for variable in board["templating"]["list"]]
    of_variables = [query["query"] for query in variables if isinstance(query, dict)]
    return [*of_panels, *of_variables, *RECORDED.values(), *(alert["expr"] for alert in ALERTS)]


def test_the_document_of_metrics_is_current() -> None:
    """Else run ``python -m mirror_ray.observe.reference``."""
    assert (ROOT / "docs/metrics.md").read_text(encoding="utf-8") == metrics_document()


def test_the_operator_is_given_the_same_rules() -> None:
    """A ``PrometheusRule`` holds its groups itself."""
    assert rule_groups("prometheus-rule.yaml") == [*rule_groups("alerts.yaml"), *rule_groups("mm2-names.yaml")]


def test_promtool_accepts_the_rules_and_its_tests_pass() -> None:
    """Its tests say for every alert when it fires, and with which words."""
    promtool = program("promtool", "prometheus")
    tests = sorted((PROMETHEUS / "tests").glob("*.yaml"))
    rules = sorted(PROMETHEUS.glob("[am]*.yaml"))
    assert len(tests) == len(rules) == 2
    for command, paths in (("check", rules), ("test", tests)):
        done = subprocess.run(
            [promtool, command, "rules", *paths], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_series_that_is_queried_is_in_the_catalogue() -> None:
    """A panel or rule of a series that nobody gives would be empty for ever."""
    used = {name for query in _queries() for name in re.findall(r"mirror_ray_\w+", query)}
    assert used
    assert used <= every_series()


def test_labels_that_are_queried_are_those_of_the_series() -> None:
    """Those in braces."""
    for query in _queries():
        for name, selector in re.findall(r"(mirror_ray_\w+)\{([^}]*)\}", query):
            metric = next(metric for metric in CATALOGUE.values() if name in metric.series)
            assert set(re.findall(r"(\w+)=", selector)) <= {*metric.labels, "le"}, query


def test_every_kind_of_problem_has_an_alert_with_a_test() -> None:
    """And every alert is in promtool's tests."""
    tested = (PROMETHEUS / "tests/alerts.test.yaml").read_text()
    expressions = {alert["alert"]: alert["expr"] for alert in ALERTS}
    of_kinds = {alert_name(kind): f'mirror_ray_problem{{kind="{kind}"}} == 1' for kind in PROBLEM_KINDS}
    assert expressions == {**of_kinds, "MirrorRayAbsent": "absent(mirror_ray_coordinator_up)"}
    assert all(f"alertname: {name}\n" in tested for name in expressions)


def test_every_alert_says_what_the_problem_says() -> None:
    """The words are those of ``status``: they come as labels."""
    for alert in ALERTS:
        if alert["alert"] != "MirrorRayAbsent":
            assert alert["for"] == "0s"
            assert alert["annotations"]["summary"] == "{{ $labels.subject }}: {{ $labels.text }}"
            assert alert["annotations"]["description"] == "{{ $labels.remedy }}"


def test_every_alert_has_a_runbook_that_is_listed() -> None:
    """A page that begins with its name, and is in the table of docs/monitoring.md; no page is left over."""
    table = (ROOT / "docs/monitoring.md").read_text()
    pages = {alert["alert"]: ROOT / alert["annotations"]["runbook"] for alert in ALERTS}
    for name, page in pages.items():
        assert page.read_text().startswith(f"# {page.stem} · {name}\n")
        assert f"`{name}`" in table
        assert f"(runbooks/alerts/{page.name})" in table
    assert set(pages.values()) == set(_RUNBOOKS.glob("*.md"))


def test_links_of_runbooks_lead_somewhere() -> None:
    """To files that are there."""
    for page in _RUNBOOKS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@every_board
def test_panels_are_side_by_side(name: str) -> None:
    """On Grafana's grid of 24 columns none covers another, and ids are unique."""
    board = DASHBOARDS[name]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert not cells & taken
        assert max(columns) < 24
        taken |= cells


@every_board
def test_panels_say_what_they_show(name: str) -> None:
    """Each has a title, a sentence, a unit and a query, and the dashboard is found under the name of its file."""
    board = DASHBOARDS[name]
    assert board["uid"] == name
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]


@every_board
def test_queries_use_the_variables_of_their_dashboard(name: str) -> None:
    """A variable that no list at the top gives would stay as it is written."""
    board = DASHBOARDS[name]
    known = {f"${variable['name']}" for variable in board["templating"]["list"]} | {"$__rate_interval"}
    for panel in panels(board):
        for target in panel["targets"]:
            assert set(re.findall(r"\$\w+", target["expr"])) <= known, panel["title"]
