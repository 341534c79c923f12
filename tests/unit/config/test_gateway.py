"""The gateway's settings, in both forms of file: what is refused, and by which key."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from mirror_ray.config.gateway import GatewaySettings, token_text
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.lab.devcluster.certificates import CertificateAuthority
from mirror_ray.model.errors import ConfigError
from tests.unit.config.conftest import BASE, NATIVE, Load, Problems

_NATIVE = f"{NATIVE}flows: {{A->B: {{}}}}\n"
_GOOD = "a-token-that-is-long-enough"
_USERS = """
gateway.tokens = alice, bob.b
gateway.tokens.alice.token = alices-token-0123456789
gateway.tokens.alice.may = act
gateway.tokens.bob.b.token = bobs-token-0123456789
gateway.reading = token
"""


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("fifteen-is-less", "has 15 characters"),
        ("x" * 1025, "has 1025 characters"),
        ("a token with blanks in it", "has blanks"),
        ("a-token-of-zwölf-or-more", "other than ASCII's"),
        ("a-token\nof-two-lines-here", "line ends"),
        ("a-token-of-one\x00or-more-parts", "other than ASCII's"),
    ],
)
@pytest.mark.parametrize("suffix", [".properties", ".yaml"])
def test_a_token_that_anybody_has_is_refused(
    problems: Problems, tmp_path: Path, token: str, says: str, suffix: str
) -> None:
    """Whichever way it is given; no part of it is told."""
    (tmp_path / "token").write_bytes(token.encode())
    reference = f"${{dir:{tmp_path}:token}}"
    if suffix == ".yaml":
        [found] = problems(f"gateway: {{token: '{reference}'}}\n", _NATIVE, suffix)
    else:
        provider = "config.providers = dir\nconfig.providers.dir.class = DirectoryConfigProvider\n"
        [found] = problems(f"{provider}gateway.token = {reference}\n")
    assert found.startswith("gateway.token: ")
    assert says in found
    assert not token.strip() or token not in found


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_the_final_newline_of_a_file_is_none_of_the_token(load: Load, tmp_path: Path, end: str) -> None:
    """No HTTP header could carry it."""
    (tmp_path / "token").write_bytes(f"{_GOOD}{end}".encode())
    loaded = load(f"gateway: {{token: '${{dir:{tmp_path}:token}}'}}\n", _NATIVE, ".yaml")
    assert loaded.settings.gateway.token is not None
    assert token_text(loaded.settings.gateway.token) == _GOOD


def test_users_are_given_alike_in_both_forms(load: Load) -> None:
    """By name, with what each may; looking only, unless it is said."""
    native = """
gateway:
  reading: token
  tokens:
    - {user: alice, token: alices-token-0123456789, may: act}
    - {user: bob.b, token: bobs-token-0123456789}
"""
    gateway = load(native, _NATIVE, ".yaml").settings.gateway
    assert load(_USERS).settings.gateway == gateway
    assert [(token.user, token.may, token_text(token.token)) for token in gateway.tokens] == [
        ("alice", "act", "alices-token-0123456789"),
        ("bob.b", "read", "bobs-token-0123456789"),
    ]
    assert gateway.reading == "token"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gateway.tokens.carl.token = x", "gateway.tokens.carl.token: 'carl' is not listed in gateway.tokens"),
        ("gateway.tokens.alice.tokn = x", "gateway.tokens.alice.tokn: unknown key; did you mean gateway.tokens.alice."),
        ("gateway.tokens.alice.may = write", "gateway.tokens.alice.may: should be 'read' or 'act'"),
        ("gateway.tokens.alice.token = short", "gateway.tokens: alice's token: has 5 characters"),
        ("gateway.tokens.alice.token = bobs-token-0123456789", "bob.b's token: is the token of alice as well"),
        (f"gateway.token = {_GOOD}\ngateway.tokens.alice.token = {_GOOD}", "is the token of gateway.token as well"),
        ("gateway.tokens = alice, bob.b, carl", "gateway.tokens.carl.token: "),
        ("gateway.tokens = alice, bob.b, alice b", "gateway.tokens.alice b"),
        ("gateway.reading = closed", "gateway.reading: should be 'open' or 'token'"),
        ("gateway.host = no such host", "gateway.host: 'no such host' is neither an IP address nor a host name"),
        ("gateway.tls.key = /k.pem", "gateway.tls.certificate: missing"),
    ],
)
def test_a_mistake_is_told_by_its_key(problems: Problems, text: str, says: str) -> None:
    """Without the value of a token."""
    found = problems(_USERS + text)
    assert any(says in problem for problem in found), found
    assert "0123456789" not in str(found)


def test_a_user_has_one_token(problems: Problems) -> None:
    """Whose name is told would be unclear otherwise."""
    twice = f"gateway: {{tokens: [{{user: a, token: {_GOOD}1}}, {{user: a, token: {_GOOD}2}}]}}\n"
    assert "gateway.tokens: a is given twice" in problems(twice, _NATIVE, ".yaml")[0]


def test_reading_by_token_needs_one(problems: Problems) -> None:
    """Or nobody could look."""
    assert problems("gateway.reading = token\n", BASE)[0].startswith("gateway.reading: nobody could look")


def test_a_certificate_and_its_key_are_looked_at(load: Load, problems: Problems, tmp_path: Path) -> None:
    """Each mistake names the key that is wrong."""
    authority = CertificateAuthority(tmp_path / "ca")
    pair, other = authority.keystore("gateway", "PEM"), authority.keystore("other", "PEM")
    sealed, text = tmp_path / "sealed.pem", tmp_path / "text.pem"
    key = serialization.load_pem_private_key(pair.read_bytes(), None)
    sealed.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"a passphrase"),
        )
    )
    text.write_text("no PEM")

    def lines(certificate: object, key: object) -> str:
        return f"gateway.tls.certificate = {certificate}\ngateway.tls.key = {key}\n"

    assert load(lines(pair, pair)).settings.gateway.tls is not None
    for certificate, its_key, says in (
        ("/none.pem", pair, "gateway.tls.certificate: '/none.pem' can't be read here: No such file"),
        (pair, "/none.pem", "gateway.tls.key: '/none.pem' can't be read here: No such file"),
        (tmp_path, pair, "gateway.tls.certificate: "),
        (text, pair, "gateway.tls.certificate: "),
        (pair, other, "gateway.tls.key: "),
        (pair, sealed, "has a passphrase"),
        (pair, authority.certificate_path, "gateway.tls.certificate: "),
    ):
        [found] = problems(lines(certificate, its_key))
        assert says in found


def test_set_checks_what_it_changes() -> None:
    """An empty token is no more let in by ``mirror-ray set`` than by a file."""
    settings = MirrorSettings(clusters={}, flows=(), gateway=GatewaySettings())
    with pytest.raises(ConfigError, match=r"gateway\.token: empty"):
        with_changes(settings, None, {"gateway.token": ""})
    assert with_changes(settings, None, {"gateway.token": _GOOD}).gateway.token is not None
