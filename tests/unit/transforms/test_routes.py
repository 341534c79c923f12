"""Routes: each record in one topic, and the ready transform that sends it there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicPartition
from mirror_ray.records import decode
from mirror_ray.records.decode import record_tail
from mirror_ray.transforms import Record, Result, Route, Transform
from mirror_ray.transforms.chain import ChainResult, NamedTransform, TransformChain
from mirror_ray.transforms.loading import load_step
from mirror_ray.transforms.ready import InsertHeader
from tests.support.transforms import ByFirst
from tests.unit.transforms.test_chain import Each, values

SOURCE = TopicPartition("orders", 3)
VALUES = st.sampled_from([b"eu", b"us", b"bad", b"other", b"gone", b"lost", None])


def _record(offset: int, value: bytes | None) -> decode.DecodedRecord:
    return decode.DecodedRecord(offset, 7, record_tail(b"k", value))


def _family(*transforms: Transform) -> dict[str, TransformChain]:
    chain = TransformChain(tuple(NamedTransform(type(step).__name__, step) for step in transforms), "all")
    destinations = dict.fromkeys(topic for transform in transforms for topic in transform.destinations)
    return {topic: replace(chain, destination=topic) for topic in ("", *destinations)}


@given(st.lists(VALUES, max_size=20))
def test_each_record_is_in_exactly_one_topic(values: list[bytes | None]) -> None:
    """Or left out, or failed: the same in all chains, so that whoever sees it says the same of it."""
    dropped = Each(lambda record: None if record.value == b"gone" else record)
    lost = Each(lambda record: record._replace(headers=((1, b""),)) if record.value == b"lost" else record)  # type: ignore[arg-type]
    records = [_record(offset, value) for offset, value in enumerate(values)]
    found = {to: chain.apply(SOURCE, records) for to, chain in _family(dropped, ByFirst(), lost).items()}
    kept = sorted(record.offset for outcome in found.values() for record in outcome.kept)
    failed = [n for n, value in enumerate(values) if value in (b"bad", b"lost")]
    assert kept == [n for n, value in enumerate(values) if value != b"gone" and n not in failed]
    assert all([failure.record.offset for failure in outcome.failures] == failed for outcome in found.values())
    assert {record.offset for record in found["eu"].kept} == {n for n, value in enumerate(values) if value == b"eu"}
    # What was only sent elsewhere goes on as it was, byte by byte.
    assert all(record is records[record.offset] for outcome in found.values() for record in outcome.kept)


def test_what_comes_after_a_route_is_for_all_of_them() -> None:
    """A later step changes routed records too, and a later route has the last word."""
    family = _family(ByFirst(), InsertHeader("seen", "yes"), Route({"k": "keyed"}))
    records = [_record(0, b"eu"), _record(1, b"other")]
    assert family["eu"].apply(SOURCE, records) == ChainResult([], [])
    kept = family["keyed"].apply(SOURCE, records).kept
    assert [record.offset for record in kept] == [0, 1]
    assert all(dict(record.fields()[2]) == {b"seen": b"yes"} for record in kept)


def test_a_destination_that_was_not_declared_is_an_error_of_the_record() -> None:
    """So is a record that says that it is from elsewhere."""
    for function in (lambda record: record.to("nowhere"), lambda record: record._replace(topic="other").to("eu")):
        made = Each(function)
        made.destinations = ("eu",)
        outcome = _family(made)["eu"].apply(SOURCE, [_record(0, b"v")])
        assert (outcome.kept, len(outcome.failures)) == ([], 1)
    again = Each(lambda record: Record(*record[:7]))
    assert [len(_family(ByFirst(), again)[to].apply(SOURCE, [_record(0, b"eu")]).failures) for to in ("", "eu")] == [
        1,
        1,
    ]
    back = Each(lambda record: record.to(""))
    back.destinations = ("us",)
    assert len(_family(ByFirst(), back)[""].apply(SOURCE, [_record(0, b"eu")]).kept) == 1
    undeclared = _family(Each(lambda record: record.to("nowhere")))[""]
    (failure,) = undeclared.apply(SOURCE, [_record(0, b"v")]).failures
    assert "declares (none)" in str(failure)


def _sent(route: Route, key: bytes | None = None, value: bytes | None = None, **headers: bytes) -> Result:
    (result,) = route([Record(key, value, tuple(headers.items()), 1, "orders", 0, 5)])
    return result


def _to(result: Result) -> str:
    assert isinstance(result, Record)
    return result.destination


def test_route_by_key_header_and_field() -> None:
    """The first expression that matches as a whole decides; with none the record stays."""
    by_key = Route("eu-.*=orders-eu, .*-vip = vips")
    assert by_key.destinations == ("orders-eu", "vips")
    keys = (b"eu-1", b"eu-vip", b"us-vip", b"x", None)
    assert [_to(_sent(by_key, key)) for key in keys] == ["orders-eu", "orders-eu", "vips", "", ""]
    by_header = Route({"eu": "orders-eu"}, header="region")
    assert [_to(_sent(by_header, region=region)) for region in (b"eu", b"us")] == ["orders-eu", ""]
    assert _to(_sent(by_header, b"eu")) == ""
    by_field = Route({"eu": "orders-eu", "7": "sevens"}, field="customer.region")
    values = (b'{"customer":{"region":"eu"}}', b'{"customer":{"region":7}}', b'{"customer":[]}', b"3", None)
    assert [_to(_sent(by_field, value=value)) for value in values] == ["orders-eu", "sevens", "", "", ""]
    assert isinstance(_sent(by_field, value=b"{"), ValueError)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to": "eu"}, "PATTERN=TOPIC"),
        ({"to": "(=eu"}, "not a regular expression"),
        ({"to": "a=b", "header": "h", "field": "f"}, "exclude each other"),
        ({"to": "a=b", "field": "f."}, "no path"),
        ({"to": "a=b", "header": ""}, "empty"),
    ],
)
def test_options_of_route_that_can_not_be(options: dict[str, Any], said: str) -> None:
    """They are told when the configuration is loaded."""
    with pytest.raises(ValueError, match=said):
        load_step(values("mirror_ray.transforms:Route", options))
