"""A cluster's schema registry, in both forms of file."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.loaded import LoadedConfig
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native, native_form
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import RegistrySettings, SslSettings
from tests.unit.config.conftest import BASE, NATIVE, Load, Problems

_R = "A.schema.registry"
_URL = f"{_R}.url = https://sr\n"
_BASIC = f"{_R}.basic.auth"
_BEARER = f"{_R}.bearer.auth"
_GRANT = f"{_BEARER}.issuer.endpoint.url = https://id/t\n{_BEARER}.client.id = c\n{_BEARER}.client.secret = s\n"
_ENV = "config.providers = env\nconfig.providers.env.class = EnvVarConfigProvider\n"
_FLOWS = "flows: {A->B: {}}\n"


def _registry(loaded: LoadedConfig, alias: str = "A") -> RegistrySettings:
    found = loaded.settings.clusters[alias].registry
    assert found is not None
    return found


def _native(registry: str) -> str:
    return NATIVE.replace("'a:9092'}", f"'a:9092', registry: {registry}}}") + _FLOWS


def test_every_key(load: Load) -> None:
    """TLS keys are those of a Kafka client; the host's name is not checked where they say so."""
    loaded = load(
        f"{_R}.url = https://sr-1:8081, https://sr-2/apis/ccompat/v7\n{_BASIC}.credentials.source = USER_INFO\n"
        f"{_BASIC}.user.info = me:tiger\n{_R}.request.timeout.ms = 500\n{_R}.requests.per.second = 20\n"
        f"{_R}.ssl.truststore.location = /t.pem\n{_R}.ssl.truststore.type = pem\n{_R}.ssl.truststore.password = p\n"
        f"{_R}.ssl.keystore.location = /k.jks\n{_R}.ssl.key.password = k\n"
        f"{_R}.ssl.endpoint.identification.algorithm =\n"
    )
    assert _registry(loaded) == RegistrySettings(
        urls=("https://sr-1:8081", "https://sr-2/apis/ccompat/v7"),
        user_info=Secret("me:tiger"),
        request_timeout_ms=500,
        requests_per_second=20,
        ssl=SslSettings(
            truststore_location="/t.pem",
            truststore_type="PEM",
            truststore_password=Secret("p"),
            keystore_location="/k.jks",
            key_password=Secret("k"),
            endpoint_identification_algorithm="",
        ),
    )
    assert loaded.settings.clusters["B"].registry is None
    assert "tiger" not in repr(loaded)
    literal = {note.key for note in loaded.notes if note.kind == "secret"}
    assert literal == {f"{_BASIC}.user.info", f"{_R}.ssl.truststore.password", f"{_R}.ssl.key.password"}


def test_tokens(load: Load) -> None:
    """One that stays the same, or a client that fetches them."""
    loaded = load(f"{_URL}{_BEARER}.credentials.source = static_token\n{_BEARER}.token = abc")
    assert _registry(loaded) == RegistrySettings(urls=("https://sr",), bearer_token=Secret("abc"))
    loaded = load(f"{_URL}{_BEARER}.credentials.source = OAUTHBEARER\n{_GRANT}{_BEARER}.scope = x")
    assert _registry(loaded) == RegistrySettings(
        urls=("https://sr",), token_endpoint_url="https://id/t", client_id="c", client_secret=Secret("s"), scope="x"
    )


def test_credentials_in_the_url(load: Load) -> None:
    """They are taken out of it, and their escapes are what they stand for."""
    source = f"{_BASIC}.credentials.source = URL\n"
    loaded = load(f"{_R}.url = https://me:ti%2Fger@sr-1, https://me:ti%2Fger@sr-2:8081/x\n{source}")
    found = _registry(loaded)
    assert found == RegistrySettings(urls=("https://sr-1", "https://sr-2:8081/x"), user_info=Secret("me:ti/ger"))
    assert f"{_R}.url" in {note.key for note in loaded.notes if note.kind == "secret"}


def test_references_stay_references(load: Load) -> None:
    """In both forms; what they lead to is looked at, and not kept."""
    loaded = load(f"{_ENV}{_URL}{_BASIC}.user.info = ${{env:SR}}", SR="me:tiger")
    native = load("", _native("{urls: 'https://sr', user_info: '${env:SR}'}"), ".yaml", SR="me:tiger")
    for found in (loaded, native):
        secret = _registry(found).user_info
        assert secret is not None
        assert (repr(secret), secret.reveal({"SR": "me:lion"})) == ("${env:SR}", "me:lion")
        assert not [note for note in found.notes if note.kind == "secret"]


def test_keys_at_the_top_are_for_all_clusters(load: Load) -> None:
    """A cluster's own win, and an empty one takes back what the top sets."""
    top = "schema.registry.url = https://all\nschema.registry.basic.auth.user.info = u:p\n"
    found = load(top).settings.clusters
    assert (
        found["A"].registry == found["B"].registry == RegistrySettings(urls=("https://all",), user_info=Secret("u:p"))
    )
    found = load(f"{top}{_URL}{_BASIC}.user.info =\nB.schema.registry.url =\n").settings.clusters
    assert found["A"].registry == RegistrySettings(urls=("https://sr",))
    assert found["B"].registry is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{_R}.url = sr:8081", ".url: it is no HTTP URL: write https://HOST:PORT, with a path if"),
        (f"{_R}.url = ftp://sr", ".url: it is no HTTP URL"),
        (f"{_R}.url = https://:8081", ".url: it is no HTTP URL"),
        (f"{_R}.url = https://sr:http", ".url: it is no URL"),
        (f"{_R}.url = https://[sr", ".url: it is no URL"),
        (f"{_R}.url = https://sr?x=1", ".url: that of sr has blanks, a query or a fragment"),
        (f"{_R}.url = https://s r", "has blanks, a query"),
        (f"{_R}.url = https://me:tiger@sr", ".url: it holds a user or a password: write them apart"),
        (f"{_R}.url = https://me:ti/ger@sr", ".url: it is no URL"),
        (f"{_R}.url = https://ti/ger@sr", ".url: it holds a user or a password"),
        (f"{_BASIC}.user.info = u:p", "has no effect without A.schema.registry.url: write that as well"),
        (f"{_URL}{_BASIC}.user.info = tiger", ".user.info: it is not written USER:PASSWORD"),
        (f"{_URL}{_BASIC}.user.info = :tiger", ".user.info: it is not written USER:PASSWORD"),
        (f"{_URL}{_BEARER}.token = ti ger", ".token: it is empty, or has blanks"),
        (f"{_URL}{_BASIC}.credentials.source = SASL_INHERIT", "SASL_INHERIT is not offered; write USER_INFO or URL"),
        (f"{_URL}{_BASIC}.credentials.source = USER_INFO", f"for USER_INFO write {_BASIC}.user.info"),
        (f"{_URL}{_BEARER}.credentials.source = CUSTOM", "CUSTOM is not offered; write STATIC_TOKEN or OAUTHBEARER"),
        (f"{_URL}{_BEARER}.credentials.source = STATIC_TOKEN", f"for STATIC_TOKEN write {_BEARER}.token"),
        (
            f"{_URL}{_BEARER}.credentials.source = OAUTHBEARER\n{_BEARER}.token = t",
            f"for OAUTHBEARER write {_BEARER}.issuer.endpoint.url and {_BEARER}.client.id and {_BEARER}.client.secret",
        ),
        (
            f"{_R}.url = https://u:tiger@sr\n{_BASIC}.credentials.source = URL\n{_BASIC}.user.info = u:p",
            f"{_BASIC}.user.info: does not go with {_BASIC}.credentials.source = URL",
        ),
        (f"{_URL}{_BASIC}.credentials.source = URL", ".url: has no USER:PASSWORD@ before its host, although"),
        (f"{_R}.url = https://[u:p@sr\n{_BASIC}.credentials.source = URL", ".url: it is no URL"),
        (
            f"{_R}.url = https://u:tiger@sr, https://sr-2\n{_BASIC}.credentials.source = URL",
            f"all need the same USER:PASSWORD@; or write {_BASIC}.credentials.source = USER_INFO, with {_BASIC}.user",
        ),
        (f"{_URL}{_BASIC}.user.info = u:p\n{_BEARER}.token = t", "basic authentication beside a bearer token"),
        (f"{_URL}{_BEARER}.token = t\n{_GRANT}", ".token: a token beside a client that fetches tokens"),
        (
            f"{_URL}{_BEARER}.client.id = c",
            f"{_BEARER}.client.id: to fetch tokens a token endpoint's URL and a client secret must be set as well",
        ),
        (f"{_URL}{_BEARER}.scope = c", f"{_BEARER}.scope: to fetch tokens a token endpoint's URL and a client id and"),
        (
            f"{_URL}{_GRANT.replace('https', 'http')}",
            "could be read on its way to id. Write https://, or schema.registry.allow.http = true",
        ),
        (
            f"{_R}.url = https://sr, http://far\n{_BASIC}.user.info = u:p",
            ".url: it is plain HTTP: credentials could be read on their way to far. Write https://, or",
        ),
        (f"{_R}.url = http://far\n{_GRANT}", "credentials could be read on their way to far"),
        (f"{_URL}{_R}.request.timeout.ms = 0", "0 is too small: at least 1"),
        (f"{_URL}{_R}.requests.per.second = -1", "-1 is too small: at least 0"),
        (f"{_URL}{_R}.proxy.host = p", "set the environment's HTTPS_PROXY"),
        (f"{_URL}{_BEARER}.logical.cluster = lsrc-1", "it is not sent; use basic authentication"),
        (f"{_URL}{_R}.uri = x", f"unknown key; did you mean {_R}.url?"),
        ("A.consumer.schema.registry.url = x", "A.consumer.schema.registry.url: unknown key"),
        ("A->B.schema.registry.url = x", "connections belong to a cluster"),
    ],
)
def test_mistake_is_named(problems: Problems, text: str, says: str) -> None:
    """The key, what is wrong and what is right; never a password."""
    found = problems(text)
    assert any(says in problem and problem.startswith("A") for problem in found), found
    assert "tiger" not in "".join(found)
    assert "ti/ger" not in "".join(found)


def test_references_in_urls(problems: Problems) -> None:
    """A password that one leads to would be kept as text."""
    (found,) = problems(f"{_ENV}{_R}.url = https://${{env:SR}}@sr\n{_BASIC}.credentials.source = URL", SR="me:tiger")
    assert found == (
        f"{_R}.url: with {_BASIC}.credentials.source = URL it can't be a reference: "
        f"write {_BASIC}.credentials.source = USER_INFO, with {_BASIC}.user.info"
    )


@pytest.mark.parametrize("url", ["http://localhost:8081", "http://127.0.0.1", "http://[::1]:8081", "https://far"])
def test_credentials_within_this_machine(load: Load, url: str) -> None:
    """Need no HTTPS."""
    assert _registry(load(f"{_R}.url = {url}\n{_BASIC}.user.info = u:p")).urls == (url,)


def test_plain_http_to_another_machine(load: Load) -> None:
    """Without credentials, or where the configuration says that the way is safe; for the token endpoint, too."""
    assert _registry(load(f"{_R}.url = http://far")).urls == ("http://far",)
    allowed = f"{_R}.url = http://far\n{_R}.allow.http = true\n"
    assert _registry(load(f"{allowed}{_GRANT.replace('https', 'http')}")).allow_http


@pytest.mark.parametrize(
    ("registry", "says"),
    [
        ("{}", "clusters.A.registry.urls: missing"),
        ("{urls: ''}", "clusters.A.registry.urls: empty; write https://HOST:PORT"),
        ("{urls: [sr]}", "clusters.A.registry.urls[0]: it is no HTTP URL"),
        ("{urls: 'https://u:tiger@sr'}", "clusters.A.registry.urls[0]: it holds a user or a password"),
        ("{urls: 'https://sr', user_info: tiger}", "clusters.A.registry.user_info: it is not written USER:PASSWORD"),
        ("{urls: 'http://sr', user_info: 'u:tiger'}", "clusters.A.registry.urls: it is plain HTTP"),
        ("{urls: 'https://sr', client_id: c}", "clusters.A.registry.client_id: to fetch tokens a token"),
        ("{urls: 'https://sr', basic: {}}", "clusters.A.registry.basic: unknown key"),
        ("{urls: 'https://sr', ssl: {truststore_typ: PEM}}", "ssl.truststore_typ: unknown key; did you mean"),
    ],
)
def test_mistake_in_yaml_is_named(problems: Problems, registry: str, says: str) -> None:
    """By its path."""
    (found,) = problems("", _native(registry), ".yaml")
    assert says in found
    assert "tiger" not in found


_WORD = st.text(st.sampled_from("abcXYZ019-_.~!$&'()*+;="), min_size=1)


@given(user=_WORD, password=_WORD, hosts=st.lists(st.sampled_from(["sr", "10.0.0.1:80", "[::1]:9"]), min_size=1))
def test_both_forms_and_both_sources_say_the_same(user: str, password: str, hosts: list[str]) -> None:
    """Credentials in the URLs or beside them; and what is loaded is written and read again."""
    info = f"{user}:{password}"
    # A dollar sign before a brace begins a reference.
    in_url = info.replace("$", "%24")
    urls = ",".join(f"https://{in_url}@{host}" for host in hosts)
    plain = [f"https://{host}" for host in hosts]
    of_url = load_mm2(f"{BASE}{_R}.url = {urls}\n{_BASIC}.credentials.source = URL\n", {})
    beside = load_mm2(f"{BASE}{_R}.url = {','.join(plain)}\n{_BASIC}.user.info = {info}\n", {})
    document = yaml.safe_load(NATIVE + _FLOWS)
    document["clusters"]["A"]["registry"] = {"urls": plain, "user_info": info}
    native = load_native(yaml.safe_dump(document), {})
    expected = RegistrySettings(urls=tuple(plain), user_info=Secret(info))
    assert _registry(of_url) == _registry(beside) == _registry(native) == expected
    text = yaml.safe_dump(native_form(native.settings))
    again = load_native(text, {"MIRROR_A_REGISTRY_USER_INFO": info})
    secret = _registry(again).user_info
    assert secret is not None
    assert secret.reveal({"MIRROR_A_REGISTRY_USER_INFO": info}) == info
    assert _registry(again).urls == tuple(plain)
