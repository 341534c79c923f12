"""What becomes of each partition, and what it is told with."""

from __future__ import annotations

from dataclasses import replace

from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.takeover.decisions import PartitionFindings, TakeoverDecision, all_or_nothing, decide, needs_contents
from mirror_ray.takeover.mm2_liveness import Mm2Activity, why_running
from mirror_ray.takeover.mm2_progress import NOT_ALL_ALIKE, NOTHING_ALIKE, ProgressMatch

FACTS = PartitionFindings(source=TopicPartition("t", 0), noted=99, source_start=0, source_end=200, target=(0, 130))
EXACT = ProgressMatch(copied=30, doubtful=0, next_offset=130)


def test_behind_what_is_there() -> None:
    """It begins behind the last record found on the target, not behind MM2's note."""
    row = decide(replace(FACTS, match=EXACT), "A.t")
    assert (row.outcome, row.begin, row.found, row.target_end) == ("taken", 130, 30, 130)
    assert (row.doubtful, row.lost, row.remarks) == (0, 0, ())


def test_behind_the_note() -> None:
    """Where nothing was copied since, or that can't be told: then it says how many may be doubled."""
    assert decide(replace(FACTS, match=ProgressMatch(copied=0, doubtful=0)), "A.t").begin == 100
    row = decide(replace(FACTS, match=ProgressMatch(copied=0, doubtful=500, reason=NOT_ALL_ALIKE)), "A.t")
    assert (row.begin, row.doubtful) == (100, 100)
    assert row.remarks == (f"{NOT_ALL_ALIKE}; up to 100 records may be doubled",)


def test_nothing_to_compare_with() -> None:
    """Retention emptied the remote partition: MM2's note counts where the source has nothing before it, either."""
    emptied = replace(FACTS, target=(130, 130), source_start=100)
    assert not needs_contents(emptied)
    assert (decide(emptied, "A.t").begin, decide(emptied, "A.t").doubtful) == (100, 100)
    row = decide(replace(emptied, source_end=100), "A.t")
    assert (row.doubtful, row.lost) == (0, 0)
    assert decide(replace(emptied, source_start=0), "A.t").outcome == "refused"


STRANGE = replace(FACTS, match=ProgressMatch(copied=0, doubtful=100, reason=NOTHING_ALIKE))


def test_a_topic_created_anew_that_outgrew_the_note() -> None:
    """Nothing on the target is the source's: what is before the note may never have been copied."""
    row = decide(STRANGE, "A.t")
    assert (row.outcome, row.begin, row.lost) == ("refused", None, 100)
    for part in ("100 records", "may be lost", "Delete the remote topic", "exclude the topic", "--force"):
        assert part in row.remarks[0]
    # What the source has deleted is not lost by going on behind it.
    assert decide(replace(STRANGE, source_start=40), "A.t").lost == 60
    row = decide(replace(STRANGE, source_start=150), "A.t")
    assert (row.outcome, row.begin, row.lost) == ("taken", 100, 0)


def test_forced_to_go_on_behind_the_note() -> None:
    """The operator knows that it is the same topic; what that may cost is said."""
    row = decide(STRANGE, "A.t", force=True)
    assert (row.outcome, row.begin, row.lost, row.doubtful) == ("taken", 100, 100, 100)
    assert any("up to 100 records may be lost" in remark for remark in row.remarks)


def test_another_partition_tells_that_it_is_the_same_topic() -> None:
    """A topic is created anew as a whole."""
    row = decide(STRANGE, "A.t", known=True)
    assert (row.outcome, row.begin, row.lost, row.doubtful) == ("taken", 100, 0, 100)


def test_empty_and_missing_remote_partitions() -> None:
    """They are left to `up`, which copies all: a note alone is no reason to leave records out."""
    for target in (None, (0, 0)):
        facts = replace(FACTS, target=target)
        assert not needs_contents(facts)
        row = decide(facts, "A.t")
        assert (row.outcome, row.begin) == ("left", None)
        assert "MirrorMaker 2 noted offset 99" in row.remarks[0]
        assert decide(replace(facts, noted=None), "A.t").remarks == ()


def test_a_note_beyond_the_source() -> None:
    """The topic was created anew since."""
    facts = replace(FACTS, source_end=99)
    assert not needs_contents(facts)
    row = decide(facts, "A.t")
    assert row.outcome == "refused"
    assert "noted offset 99 of t-0, which ends at 99" in row.remarks[0]


def test_removed_on_the_source() -> None:
    """A gap behind the note is said; `up` answers it as any other."""
    row = decide(replace(FACTS, source_start=150, match=ProgressMatch(copied=0, doubtful=0)), "A.t")
    assert (row.outcome, row.begin) == ("taken", 100)
    assert "source offsets 100 to 149 were deleted" in row.remarks[0]
    assert "source_removed" in row.remarks[0]


def test_without_a_note() -> None:
    """MM2 was killed before its first one: only where the target begins as the source does."""
    facts = replace(FACTS, noted=None)
    row = decide(replace(facts, match=EXACT), "A.t")
    assert (row.outcome, row.begin) == ("taken", 130)
    for unsure in (None, ProgressMatch(copied=0, doubtful=0), replace(EXACT, reason="unsure")):
        row = decide(replace(facts, match=unsure), "A.t")
        assert row.outcome == "refused"
        assert "noted no offset of t-0" in row.remarks[0]


def test_all_or_nothing() -> None:
    """One refused partition refuses its topic, and no other; what was accounted for before stays."""

    def row(topic: str, number: int, outcome: str) -> TakeoverDecision:
        return TakeoverDecision(source=TopicPartition(topic, number), remote=f"A.{topic}", outcome=outcome)  # type: ignore[arg-type]

    rows = [row("t", number, outcome) for number, outcome in enumerate(("taken", "refused", "kept", "left"))]
    rows.append(row("u", 0, "taken"))
    settled = all_or_nothing(rows)
    assert [row.outcome for row in settled] == ["refused", "refused", "kept", "refused", "taken"]
    assert settled[0].remarks == ("because of t-1",)


FLOW = FlowName("A", "B")
QUIET = Mm2Activity(
    offsets_ends={TopicPartition("mm2-offsets.A.internal", 3): 5},
    remote_ends={TopicPartition("A.t", 0): 7},
    heartbeat_ms=1000,
    workers="Empty",
)


def test_no_sign() -> None:
    """All stands still, and the group of its workers is empty, gone, or not known."""
    for workers in ("Empty", "Dead", None):
        assert why_running(FLOW, "A-mm2", QUIET, replace(QUIET, workers=workers)) is None


def test_signs() -> None:
    """The strongest is named, with the next step."""
    grown = replace(QUIET, remote_ends={TopicPartition("A.t", 0): 8}, heartbeat_ms=2000)
    live = replace(grown, workers="Stable")
    noted = replace(QUIET, offsets_ends={TopicPartition("mm2-offsets.A.internal", 3): 6})
    beats = replace(QUIET, heartbeat_ms=1001)
    for after, sign in (
        (live, "its group A-mm2 on B has members (state Stable)"),
        (grown, "remote topic A.t-0 went from 7 to 8"),
        (noted, "offsets topic mm2-offsets.A.internal-3 went from 5 to 6"),
        (beats, "heartbeats of A->B still come in"),
    ):
        why = why_running(FLOW, "A-mm2", QUIET, after)
        assert why is not None
        assert sign in why
        assert "stop MirrorMaker 2" in why
