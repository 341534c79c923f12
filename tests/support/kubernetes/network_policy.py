"""Holds the pods of this machine to the NetworkPolicies of their cluster, as a network plugin does on each node.

    python -m tests.support.kubernetes.network_policy --kubeconfig FILE

runs in the network namespace through which all traffic of pods goes, until SIGTERM; then nothing is bounded any more.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.kubernetes.node_api import NodeApi
from tests.support.kubernetes.policy_rules import TABLE, script

Object = dict[str, Any]

_PATHS = {
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
}
_TOGETHER_S = 0.1


class PolicyKeeper:
    """Follows policies, pods and namespaces, and puts the rules into the kernel when they have changed."""

    def __init__(self, api: NodeApi) -> None:
        self._api = api
        self._known: dict[str, dict[str, Object]] = {}
        self._changed = asyncio.Event()
        self._before = ""

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            for kind, path in _PATHS.items():
                group.create_task(self._follow(kind, path))
            group.create_task(self._keep())

    async def _follow(self, kind: str, path: str) -> None:
        async for event, changed in self._api.follow(path):
            if event == "LIST":
                self._known[kind] = {item["metadata"]["uid"]: item for item in changed["items"]}
            elif event == "DELETED":
                self._known[kind].pop(changed["metadata"]["uid"], None)
            else:
                self._known[kind][changed["metadata"]["uid"]] = changed
            self._changed.set()

    async def _keep(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_TOGETHER_S)
            self._changed.clear()
            if set(self._known) == set(_PATHS):
                self._apply()

    def _apply(self) -> None:
        policies, pods, namespaces = (self._known[kind].values() for kind in _PATHS)
        labels = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in namespaces}
        made = script(policies, pods, labels)
        if made != self._before:
            nft(made)
            self._before = made
            sys.stderr.write(f"{len(policies)} policies for {len(pods)} pods\n")


def nft(commands: str) -> None:
    """Change the kernel's rules.

    Raises:
        subprocess.CalledProcessError: It refused; what it said is on standard error.
    """
    subprocess.run(["nft", "-f", "-"], input=commands, text=True, check=True)  # noqa: S607 - Debian's nftables


async def _main(kubeconfig: Path) -> None:
    async with NodeApi(kubeconfig) as api:
        keeping = asyncio.create_task(PolicyKeeper(api).run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, keeping.cancel)
        try:
            await keeping
        except asyncio.CancelledError:
            nft(f"table inet {TABLE}\ndelete table inet {TABLE}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asyncio.run(_main(parser.parse_args().kubeconfig))
