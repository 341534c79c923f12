"""The report as JSON and as HTML: well-formed, nothing from elsewhere, every name escaped."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.report.explanations import explained, headline
from mirror_ray.report.html_report import make_html
from mirror_ray.report.json_document import make_document
from mirror_ray.report.number_format import number
from mirror_ray.report.progress import LogRead
from mirror_ray.report.svg import Bar, Series, bar_chart, line_chart
from tests.support.report import BEGIN_MS, HOUR_MS, asked, found, partition, with_bad_records

_VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})


class Reader(HTMLParser):
    """What a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "a&b;<!--", "]]>"])
def test_names_are_text_wherever_they_stand(name: str) -> None:
    """In topics, gaps, records that could not be used, currencies: no tag and no attribute comes of them."""
    gap = {"topic": name, "partition": 0, "kind": "source_removed", "policy": "skip", "text": name, "time_ms": BEGIN_MS}
    offsets = dict.fromkeys(("source_from", "source_to", "target_from", "target_to"), -1)
    rows = [partition(name), partition("orders", codecs=[name], target_topic=name)]
    document = make_document(asked(currency=name), found(*rows, gaps=[gap | offsets], progress=with_bad_records(name)))
    page = Reader(make_html(document))
    assert not page.tags & {"script", "img", "iframe", "object", "embed"}
    assert not any(attribute.startswith("on") for attribute in page.attributes)
    assert name in page.text


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No address, no script, and the browser is to allow none."""
    page = make_html(make_document(asked(), found()))
    assert "http://" not in page
    assert "https://" not in page
    assert not Reader(page).attributes & {"src", "href"}
    assert "default-src 'none'" in page


def test_the_sums_are_those_of_the_partitions() -> None:
    """By topic and for the flow; untold records are in them, and shown apart."""
    rows = [partition("orders", 0, 10), partition("orders", 1, 20, untold_records=500), partition("clicks", 0, 3)]
    document = make_document(asked(), found(*rows))
    total = document["total"]
    assert (total["records"], total["told_records"], total["untold_records"]) == (198_500, 198_000, 500)
    assert total["wire_bytes"] == 19_850_000
    assert [topic["topic"] for topic in document["topics"]] == ["orders", "clicks"]
    assert sum(topic["records"] for topic in document["topics"]) == total["records"]
    assert total["records_per_s"] == pytest.approx(198_500 / 3600)
    assert document["worst_lag"]["place"] == "orders-1"
    assert json.loads(json.dumps(document)) == document


def test_days_deleted_out_of_the_middle_are_named() -> None:
    """They are among the untold."""
    document = make_document(asked(), found(progress=replace(with_bad_records("x"), deleted=("2026-11-21",))))
    assert "while older ones were kept: 2026-11-21." in dict(explained(document))["Untold"]
    assert "deleted" not in dict(explained(make_document(asked(), found())))["Untold"].replace("retention deleted", "")


def test_cost() -> None:
    """By the bytes that went over the link, and by what they would have been."""
    cost = make_document(asked(price_per_gb=2.0), found(partition(scale=10_000)))["cost"]
    assert cost["wire"] == pytest.approx(12.0)
    assert cost["uncompressed_estimated"] == pytest.approx(48.0)
    assert cost["terabyte_compressed_estimated"] == pytest.approx(500.0)
    assert cost["terabyte_uncompressed"] == pytest.approx(2000.0)
    assert cost["month_at_this_rate"] == pytest.approx(12.0 * 720)


def test_the_targets_logs_are_tallied() -> None:
    """Offsets before the first statistics, told, untold, and records without statistics yet add up to their ends."""
    check = make_document(asked(), found(partition(untold_records=40), partition("clicks")))["check"]
    assert check == {
        "partitions": 2,
        "target_ends": 12_254,
        "before_first": 200,
        "told": 12_000,
        "untold": 40,
        "not_told_yet": 14,
    }
    assert "as it has to be" in dict(explained(make_document(asked(), found())))["Compared with the target"]


def test_logs_that_say_nothing_are_left_out_of_the_tally() -> None:
    """Others write to them, they are not the ones that were copied to, or they can't be seen."""
    rows = [partition("a", shared=True), partition("b", target_topic_ids=["old", "t"]), partition("c")]
    document = make_document(asked(), found(*rows, target_ends={("A.a", 0): ("t", 9), ("A.b", 0): ("t", 9)}))
    assert document["check"]["partitions"] == 0
    assert [row["target_end"] for row in document["partitions"]] == [None, None, None]


def test_a_part_of_the_time_is_not_tallied() -> None:
    """The ends of logs are those of now."""
    document = make_document(asked(since_ms=BEGIN_MS + 10), found())
    assert document["check"] is None
    assert document["from_ms"] == BEGIN_MS + 10
    assert "only where the report shows all" in dict(explained(document))["Compared with the target"]


def test_gaps_are_those_of_the_time_asked_for() -> None:
    """Also before the first interval and after the last one: a partition may have stopped."""
    before, within, behind = gaps = [{"time_ms": BEGIN_MS + at} for at in (-1, 5, HOUR_MS)]
    for since_ms, until_ms, shown in (
        (None, None, gaps),
        (BEGIN_MS - 1, None, gaps),
        (BEGIN_MS, None, [within, behind]),
        (None, BEGIN_MS + HOUR_MS, [before, within]),
        (BEGIN_MS + 6, BEGIN_MS + 7, []),
    ):
        assert make_document(asked(since_ms=since_ms, until_ms=until_ms), found(gaps=gaps))["gaps"] == shown
    assert make_document(asked(), found(partitions=[], steps=[], gaps=gaps))["gaps"] == gaps


def test_without_skipped_ranges_the_time_is_named() -> None:
    """And when the state can't be read, it says so instead of none."""
    assert "None: no partition" in make_html(make_document(asked(), found()))
    assert "None in the selected time: " in make_html(make_document(asked(since_ms=BEGIN_MS), found()))
    assert "Skipped ranges are not known" in make_html(make_document(asked(), found(gaps=None)))


def test_without_statistics_there_is_html() -> None:
    """It says so."""
    document = make_document(asked(), found(partitions=[], steps=[], target_ends={}))
    assert headline(document) == ["Nothing was copied in this time, or there are no statistics of it."]
    Reader(make_html(document))


def test_missing_statistics_are_named() -> None:
    """Deleted before it was read, of no use, published twice, not matching offsets."""
    again = LogRead(topic_id="", partition=0, first=0, next=200, went_back=1)
    progress = replace(with_bad_records("x"), logs=(replace(again, next=1000, went_back=0), again))
    document = make_document(asked(), found(partition(told_twice=2, mismatches=3), progress=progress))
    texts = dict(explained(document))
    assert "3 records of the topic could not be used" in texts["Missing"]
    assert "2 intervals occurred twice" in texts["Missing"]
    assert "1 time the topic's log ended before what had been read of it" in texts["Missing"]
    assert "it is not so in 3 intervals" in texts["Compared with the target"]


@given(
    st.text(max_size=20),
    st.lists(st.none() | st.floats(min_value=0, max_value=1e15), min_size=1, max_size=30),
    st.booleans(),
)
def test_line_charts_are_well_formed(name: str, values: list[float | None], logarithmic: bool) -> None:
    """Whatever the values, and whatever they are called."""
    name = "".join(letter for letter in name if letter.isprintable())
    times = [BEGIN_MS + at * 60_000 for at in range(len(values))]
    series = [Series(name=name, values=values, filled=True), Series(name="other", values=values)]
    drawn = line_chart(name, name, times, 60_000, series=series, words=number, logarithmic=logarithmic)
    root = ET.fromstring(f"<div>{drawn}</div>")  # noqa: S314 - written by the project itself
    for polyline in root.iter("polyline"):
        for point in polyline.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 560
            assert 0 <= y <= 210


@given(
    st.lists(st.tuples(st.text(max_size=60), st.floats(min_value=0, max_value=1e15), st.integers(1, 40)), max_size=10)
)
def test_bar_charts_are_well_formed(bars: list[tuple[str, float, int]]) -> None:
    """Also where all are 0; the words behind a bar are within the picture."""
    shown = [
        Bar(label="".join(filter(str.isprintable, label)), value=value, text="8" * length)
        for label, value, length in bars
    ]
    root = ET.fromstring(f"<div>{bar_chart('b', 'b', shown)}</div>")  # noqa: S314 - written by the project itself
    assert all(float(bar.attrib["width"]) <= 560 for bar in root.iter("rect"))
    assert all(float(text.attrib["x"]) + 7 * len(text.text or "") <= 560 for text in root.iterfind(".//text[@class]"))


@pytest.mark.parametrize("largest", [0.0, 0.3, 1.0, 7.0, 999.0, 1e12])
def test_axes_reach_above_the_largest_value(largest: float) -> None:
    """In round steps from 0."""
    from mirror_ray.report.svg import _log_marks, _marks

    marks: list[Any] = [_marks(largest), _log_marks(largest)]
    assert all(values[-1] >= largest for values in marks)
    assert all(2 <= len(values) <= 14 for values in marks)
