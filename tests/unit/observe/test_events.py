"""The event log."""

from mirror_ray.observe.events import EventLog


def test_it_keeps_the_newest_and_counts_all() -> None:
    """Two thousand stay; the counts and numbers go on."""
    log = EventLog(lambda: 7)
    for number in range(2_500):
        log.emit("warning" if number % 2 else "info", "A->B", str(number))
    kept = log.newest(10_000)
    assert [event.number for event in kept] == list(range(501, 2_501))
    assert log.counts == {"info": 1_250, "warning": 1_250}
    assert {event.time_ms for event in kept} == {7}


def test_newest_come_oldest_first() -> None:
    """As a log is read; none when none are asked for."""
    log = EventLog(lambda: 7)
    log.emit("info", "A->B", "first")
    log.emit("error", "A->B", "second", 5)
    assert [(event.text, event.time_ms) for event in log.newest(2)] == [("first", 7), ("second", 5)]
    assert [event.text for event in log.newest(1)] == ["second"]
    assert log.newest(0) == ()
