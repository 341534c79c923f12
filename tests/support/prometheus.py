"""A real Prometheus that scrapes one endpoint and evaluates our rules."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mirror_ray.lab.devcluster.ports import free_port
from tests.support.debian import program
from tests.support.waiting import wait_until

_RULES = Path(__file__).parents[2] / "deploy/prometheus"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running one, at ``url``."""

    url: str

    def query(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """What an expression gives now: labels and value of each series."""
        found = self._get("query", query=expression)["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in found]

    def firing(self) -> list[Mapping[str, Any]]:
        """The alerts that fire now: their ``labels`` and ``annotations``."""
        return [alert for alert in self._get("alerts")["alerts"] if alert["state"] == "firing"]

    def healthy_alerts(self) -> set[str]:
        """Names of the alert rules that were evaluated without an error."""
        rules = [rule for group in self._get("rules", type="alert")["groups"] for rule in group["rules"]]
        return {rule["name"] for rule in rules if rule["health"] == "ok"}

    def scraped(self) -> bool:
        """Whether the endpoint was scraped without an error."""
        return [value for _, value in self.query('up{job="mirror-ray"}')] == [1.0]

    def _get(self, what: str, **parameters: str) -> Any:
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            return json.load(answer)["data"]


@contextlib.contextmanager
def scraping(endpoint: str, folder: Path, interval: str = "2s") -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``endpoint`` (host:port) and evaluates the rules under ``deploy/`` this often."""
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(_RULES / name) for name in ("alerts.yaml", "mm2-names.yaml")],
        "scrape_configs": [{"job_name": "mirror-ray", "static_configs": [{"targets": [endpoint]}]}],
    }
    written = folder / "prometheus.yml"
    written.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus", "prometheus"),
        f"--config.file={written}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            prometheus = Prometheus(f"http://{address}")
            wait_until(lambda: _ready(prometheus), 20, f"Prometheus is up: {folder / 'prometheus.log'}")
            yield prometheus
        finally:
            process.terminate()


def _ready(prometheus: Prometheus) -> bool:
    try:
        with urllib.request.urlopen(f"{prometheus.url}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
