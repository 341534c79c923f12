"""What this machine's clients of registries are told by environment and files, for those in a build.

A proxy, a mirror, an authority of its own: pip, uv, Cargo, Maven and apt work in a build as they do here. The directory
is mounted while they run, as the Dockerfile says, and is in no layer of the image.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Where the Dockerfile mounts the directory.
MOUNTED: Final = "/run/registries"
_VARIABLES: Final = re.compile(
    r"(?i:https?|ftp|all|no)_proxy|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|PIP_(CERT|CONFIG_FILE|DEFAULT_TIMEOUT|EXTRA_INDEX_URL|INDEX_URL|PROXY|TRUSTED_HOST)"
    r"|UV_(CONFIG_FILE|DEFAULT_INDEX|EXTRA_INDEX_URL|HTTP_TIMEOUT|INDEX|INDEX_\w+|INSECURE_HOST|NATIVE_TLS)"
    r"|CARGO_(HTTP|NET|REGISTRIES|REGISTRY|SOURCE)_\w+|MAVEN_OPTS"
)
_APT: Final = re.compile(r'(Acquire::(?:https?::|Check-|Retries)\S*) "(.+)";')
#: Of a user's home directory: the command that reads it there.
_IN_HOME: Final = {".cargo/config.toml": "cargo", ".m2/settings.xml": "mvn"}
#: Of a user's home directory, or of the machine: the variable that names it elsewhere.
_BY_VARIABLE: Final = {
    ".config/pip/pip.conf": "PIP_CONFIG_FILE",
    ".config/uv/uv.toml": "UV_CONFIG_FILE",
    "/etc/pip.conf": "PIP_CONFIG_FILE",
    "/etc/uv/uv.toml": "UV_CONFIG_FILE",
}
#: What Java trusts, in a file that it reads itself.
_JAVA_TRUSTS: Final = ("/etc/ssl/certs/java/cacerts", "{JAVA_HOME}/lib/security/cacerts")


@dataclass(frozen=True, kw_only=True)
class Registries:
    """What goes into the directory: its own files' texts, and files of this machine by their names in it."""

    environment: str
    apt: str
    files: Mapping[str, Path]


def registries(variables: Mapping[str, str], home: Path, apt: str) -> Registries:
    """X."""
    files: dict[str, Path] = {}

    def there(value: str) -> str | None:
        """A value as it holds in the build; None: it is a directory, which is not there."""
        if not value.startswith("/") or not Path(value).exists():
            return value
        if Path(value).is_dir():
            return None
        name = next((name for name, path in files.items() if path == Path(value)), f"{len(files)}-{Path(value).name}")
        files[name] = Path(value)
        return f"{MOUNTED}/{name}"

    named = {name: value for name, value in variables.items() if _VARIABLES.fullmatch(name)}
    for path, variable in _BY_VARIABLE.items():
        if variable not in named and (home / path).is_file():
            named[variable] = str(home / path)
    exported = {name: held for name, value in sorted(named.items()) if (held := there(value)) is not None}
    for pattern in _JAVA_TRUSTS:
        store = Path(pattern.format(JAVA_HOME=variables.get("JAVA_HOME", "/none")))
        if store.is_file() and "trustStore=" not in exported.get("MAVEN_OPTS", ""):
            trusted = f"-Djavax.net.ssl.trustStore={there(str(store))}"
            exported["MAVEN_OPTS"] = f"{exported.get('MAVEN_OPTS', '')} {trusted}".strip()
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
    at_home = {path: command for path, command in _IN_HOME.items() if (home / path).is_file()}
    lines += [_copied(path, command, there(str(home / path))) for path, command in at_home.items()]
    options = [(name, there(value)) for name, value in _APT.findall(apt)]
    lines.append(f"export APT_CONFIG={MOUNTED}/apt.conf")
    return Registries(
        environment="\n".join(lines) + "\n",
        apt="".join(f'{name} "{value}";\n' for name, value in options if value is not None),
        files=files,
    )


def apt_options() -> str:
    """What ``apt-config dump`` says on this machine; nothing where there is no apt."""
    if shutil.which("apt-config") is None:
        return ""
    return subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout  # noqa: S607 - the machine's own


def of_mirrors(dump: str) -> list[str]:
    """Those options of apt's which say how to reach a mirror, each as apt.conf has it."""
    return [f'{name} "{value}";' for name, value in _APT.findall(dump)]


def write(found: Registries, directory: Path) -> None:
    """Make the directory's files."""
    (directory / "environment").write_text(found.environment)
    (directory / "apt.conf").write_text(found.apt)
    for name, path in found.files.items():
        shutil.copyfile(path, directory / name)


def _copied(path: str, command: str, source: str | None) -> str:
    """A line of shell: where a client is that reads a file in its home directory, it has it there."""
    return f"if command -v {command} >/dev/null; then install -D -m 600 {source} ~/{path}; fi"
