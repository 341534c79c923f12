"""Configurations as they come of slips and of malice, for hypothesis: in both forms, with references and without.

Whatever comes of them, ``SECRET`` must not be told: it is what references lead to, and what passwords are.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

SECRET: Final = "Tiger7!zQ"
#: What the generated references find.
ENVIRON: Final = {"SECRET": SECRET, "LINES": f"{SECRET}\n{SECRET}", "EMPTY": "", "ODD": "\udcff"}

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_MM2: Final = (
    "clusters = A, B",
    "A.bootstrap.servers = a:9092",
    "B.bootstrap.servers = b:9092",
    "A->B.enabled = true",
    "A->B.topics = orders, a\\\\.b.*",
    "A->B.topics.rename = x-(.*):y-$1",
    "replication.factor = 3",
    "refresh.topics.interval.seconds = 10",
    "emit.heartbeats.interval.seconds = 1",
    "topics.start = latest",
    "topics.map = orders:dr-orders",
    "limits.topics = orders=1000",
    "limits.windows = mon-fri 22:00-06:00",
    "replication.policy.separator = -",
    "elastic.max.replicators = 4",
    "cost.price.per.gb = 0.05",
    "gateway.host = 127.0.0.1",
    "gateway.token = ${env:SECRET}",
    "transforms = t",
    "transforms.t.type = mirror_ray.transforms:FilterByKey",
    "transforms.t.pattern = a.*",
    "B.security.protocol = SASL_SSL",
    "B.sasl.mechanism = PLAIN",
    f'B.sasl.jaas.config = {_PLAIN} required username="u" password="{SECRET}";',
    f"B.ssl.truststore.password = {SECRET}",
    "A.schema.registry.url = http://localhost:8081",
    f"A.schema.registry.basic.auth.user.info = u:{SECRET}",
    f"B.schema.registry.url = https://u:{SECRET}@b:8081",
    "B.schema.registry.basic.auth.credentials.source = URL",
    "schemas.subjects.map = orders-value:dr-orders-value",
    "schemas.contexts.map = .a=.b",
    "config.providers = env, file, dir",
    *(
        f"config.providers.{name}.class = org.apache.kafka.common.config.provider.{kind}ConfigProvider"
        for name, kind in (("env", "EnvVar"), ("file", "File"), ("dir", "Directory"))
    ),
)
_NATIVE: Final = (
    "version: 1",
    "replicators: 2",
    "lease_ms: 10000",
    "alerts: {lag_s: 60, crash_loop_deaths: 3}",
    "elastic: {max_replicators: 4, target_cpu: 0.5}",
    "gateway: {host: 127.0.0.1, token: '${env:SECRET}'}",
    "defaults:",
    "  topics: {include: ['.*'], replication_factor: 3, start: latest}",
    "  limits: {windows: ['mon-fri 22:00-06:00'], topics: ['a=5'], time_zone: UTC}",
    "  policy: {separator: '-'}",
    "clusters:",
    "  A: {bootstrap_servers: 'a:9092'}",
    "  B:",
    "    bootstrap_servers: ['b:9092', '[::1]:9092']",
    "    security: &s",
    "      protocol: SASL_SSL",
    f"      sasl: {{mechanism: PLAIN, username: u, password: '{SECRET}'}}",
    "      ssl: {truststore_password: '${env:SECRET}'}",
    f"    registry: {{urls: ['https://b:8081'], bearer_token: '{SECRET}'}}",
    "flows:",
    "  A->B:",
    "    topics: {map: {orders: dr}, rename: [{match: 'x(.*)', to: 'y$1'}]}",
    "    transforms: {steps: [{type: 'mirror_ray.transforms:FilterByKey', options: {pattern: a}}]}",
    "    schemas: {sync_enabled: false, subjects_map: {a: b}, contexts_map: {.a: .b}, topics: ['a.*']}",
    "  B->A: {enabled: false}",
)
#: Values that other programs have stumbled over.
_WORDS: Final = (
    "-1 0 -7 1e400 nan .inf 1_0 \u0663 0x10 1:30 yes ~ 2020-99-99 2020-01-01 (a+)+b a{1,99999999999} [z-a] * \\ /<> "
    "<b> a a:0 a:99999 [::1:9092 ../x \udc80 \U0001f600 A->B -> a,b,,c = : !x *a | ' \" % @ \\u12 \\ud800 \\u0000 "
    "os:system mirror_ray.transforms:Route com.x.Y nomod:X ${ ${no:a} ${env:SECRET} ${env:LINES} ${env:EMPTY} "
    "${env:ODD} ${env:NO} ${env:SECRET}${env:SECRET} a${env:SECRET} ${file:/no:k} ${file:/dev/zero:k} ${dir:/tmp:..}"
)
_ODD: Final = (
    *_WORDS.split(" "),
    *("", " ", "\x00", "\x1b[31m", "${dir:/tmp\x00:k}", "!!int foo", "&a [*a]", "{? [a] : b}", "- ", "<<: 1"),
    *("9" * 25, "9" * 5000, "x" * 300, "(" * 200, "[" * 200, "{a: " * 200, "${" * 500 + ":" * 500),
)

_odd_text: Final = st.one_of(
    st.sampled_from(_ODD),
    st.text(max_size=20),
    st.text(alphabet="()[]{}|*+?\\^$.,:;=#!&'\"<>-> \t\n0a", max_size=40),
    st.integers().map(str),
    st.floats().map(str),
)


@st.composite
def properties(draw: st.DrawFn) -> str:
    """A file in MM2's form that is nearly one."""
    return _changed(draw, _MM2, "=")


@st.composite
def native(draw: st.DrawFn) -> str:
    """A file in the native form that is nearly one."""
    return _changed(draw, _NATIVE, ":")


def _changed(draw: st.DrawFn, lines: tuple[str, ...], between: str) -> str:
    """Some lines left out, then a few slips: another value, another key, signs lost, a line twice, a line moved."""
    gone = draw(st.sets(st.integers(0, len(lines) - 1), max_size=3))
    found = [line for number, line in enumerate(lines) if number not in gone]
    for _ in range(draw(st.integers(0, 4))):
        number = draw(st.integers(0, len(found) - 1)) if found else 0
        line = found[number] if found else ""
        key, _, value = line.partition(between)
        odd = draw(_odd_text)
        slip = draw(st.sampled_from(("value", "key", "inside", "cut", "again", "moved", "added")))
        if slip == "value":
            line = f"{key}{between} {odd}"
        elif slip == "key":
            line = f"{odd}{between}{value}"
        elif slip == "inside":
            at = draw(st.integers(0, len(line)))
            line = line[:at] + odd + line[at:]
        elif slip == "cut":
            line = line[: draw(st.integers(0, len(line)))]
        elif slip == "moved":
            found.append(f"  {line}")
        found[number : number + (slip not in ("again", "added"))] = [odd if slip == "added" else line]
    return "\n".join(found)


#: For ``set``: whose keys, and which.
flows: Final = st.sampled_from(("A->B", None, "A->C", "", "A->B#x")) | st.none()
_KEYS: Final = (
    *("topics.include", "topics.exclude", "topics.map.orders", "topics.rename", "topics.refresh_interval_s", "topics"),
    *("replicators", "alerts.lag_s", "elastic.max_replicators", "elastic", "limits.windows", "limits.topics"),
    *("cost.currency", "trouble", "trouble.policy", "policy.separator", "policy.options.x", "transforms.steps"),
    *("enabled", "groups.include", "schemas.sync_enabled", "schemas.subjects_map.a", "schemas.contexts_map", "schemas"),
)
changes: Final = st.dictionaries(
    st.sampled_from(_KEYS) | _odd_text, st.none() | _odd_text | _odd_text.map(lambda text: f"[{text}"), max_size=3
)
