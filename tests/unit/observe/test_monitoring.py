"""Alert rules, recording rules and dashboards."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from mirror_ray.observe.metrics import CATALOGUE, every_series
from mirror_ray.observe.monitoring.alerts import ALERTS, RUNBOOKS
from mirror_ray.observe.monitoring.dashboards import DASHBOARDS
from mirror_ray.observe.monitoring.files import files
from mirror_ray.observe.monitoring.grafana import Dashboard
from mirror_ray.observe.monitoring.mm2_names import RECORDED
from mirror_ray.observe.problems import PROBLEM_KINDS
from tests.support.debian import program

_ROOT = Path(__file__).parents[3]
_PROMETHEUS = _ROOT / "deploy/prometheus"


def test_the_files_are_what_is_made() -> None:
    """Else: ``python -m mirror_ray.observe.monitoring``."""
    assert {name: (_ROOT / name).read_text(encoding="utf-8") for name in files()} == files()


def test_promtool_finds_the_rules_right_and_its_tests_pass() -> None:
    """Prometheus's own checker; its tests say for every alert when it fires, and with which words."""
    promtool = program("promtool", "prometheus")
    tests = sorted((_PROMETHEUS / "tests").glob("*.yaml"))
    rules = sorted(_PROMETHEUS.glob("[am]*.yaml"))
    assert len(tests) == len(rules) == 2
    for what, paths in (("check", rules), ("test", tests)):
        done = subprocess.run(
            [promtool, what, "rules", *paths], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _queries() -> list[str]:
    panels = [query.expression for board in DASHBOARDS for panel in board.panels for query in panel.queries]
    chosen = [variable.series for board in DASHBOARDS for variable in board.variables]
    return [*panels, *chosen, *RECORDED.values(), *(alert.expression for alert in ALERTS)]


def test_every_series_that_is_asked_for_is_in_the_catalogue() -> None:
    """A panel or rule of a series that nobody gives would be empty for ever."""
    used = {name for query in _queries() for name in re.findall(r"mirror_ray_\w+", query)}
    assert used <= every_series()


def test_labels_that_are_asked_for_are_those_of_the_series() -> None:
    """In braces, and what series are told apart by."""
    for query in _queries():
        for name, inside in re.findall(r"(mirror_ray_\w+)\{([^}]*)\}", query):
            metric = next(each for each in CATALOGUE.values() if name in each.series)
            assert set(re.findall(r"(\w+)=", inside)) <= {*metric.labels, "le"}, query


def test_every_kind_of_problem_has_an_alert_with_a_test() -> None:
    """And every alert is in promtool's tests."""
    tested = (_PROMETHEUS / "tests/alerts.test.yaml").read_text()
    assert len(ALERTS) == len(PROBLEM_KINDS) + 1
    for kind in PROBLEM_KINDS:
        assert sum(f'kind="{kind}"' in alert.expression for alert in ALERTS) == 1
    assert all(f"alertname: {alert.name}\n" in tested for alert in ALERTS)


def test_every_alert_has_a_runbook_that_is_listed() -> None:
    """A page that begins with its name, and stands in the table of docs/monitoring.md; no page is left over."""
    table = (_ROOT / "docs/monitoring.md").read_text()
    for alert in ALERTS:
        page = _ROOT / alert.runbook
        assert page.read_text().startswith(f"# {page.stem} · {alert.name}\n")
        assert f"`{alert.name}`" in table
        assert f"(runbooks/alerts/{page.name})" in table
    assert {_ROOT / alert.runbook for alert in ALERTS} == set((_ROOT / RUNBOOKS).glob("*.md"))


def test_links_of_runbooks_lead_somewhere() -> None:
    """To files that are there."""
    for page in (_ROOT / RUNBOOKS).glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda each: each.uid)
def test_panels_lie_side_by_side(board: Dashboard) -> None:
    """On Grafana's grid of 24 columns none covers another, and ids are unique."""
    panels = json.loads(json.dumps(board.document()))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda each: each.uid)
def test_queries_use_the_choices_that_there_are(board: Dashboard) -> None:
    """A variable that no list at the top gives would stay as it is written."""
    given = {f"${each.name}" for each in board.variables} | {"$__rate_interval"}
    for panel in board.panels:
        for query in panel.queries:
            assert set(re.findall(r"\$\w+", query.expression)) <= given, panel.title
