"""FetchSession: what is sent to the broker, and what is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.replication.fetch_session import FetchSession


def test_begins_with_everything_and_goes_on_with_differences() -> None:
    """The first request names every partition, later ones only those that moved."""
    session: FetchSession[str, int] = FetchSession()
    session.want("a", 0)
    session.want("b", 5)
    assert session.next_request() == ((0, 0), {"a": 0, "b": 5}, [])
    session.answered(77)
    session.want("a", 3)
    session.want("b", 5)
    assert session.next_request() == ((77, 1), {"a": 3}, [])
    session.answered(77)
    session.forget("b")
    assert session.next_request() == ((77, 2), {}, ["b"])


def test_a_broker_without_room_gets_full_requests() -> None:
    """Session id 0 in the answer means: name everything each time."""
    session: FetchSession[str, int] = FetchSession()
    session.want("a", 0)
    session.next_request()
    session.answered(0)
    assert session.next_request() == ((0, 0), {"a": 0}, [])


def test_a_lost_session_begins_anew() -> None:
    """After a restart everything that is wanted is sent, nothing that was forgotten."""
    session: FetchSession[str, int] = FetchSession()
    session.want("a", 0)
    session.want("b", 0)
    session.next_request()
    session.answered(9)
    session.forget("b")
    session.restart()
    assert session.next_request() == ((0, 0), {"a": 0}, [])


steps = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.sampled_from("abcd"), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.sampled_from("abcd"), st.just(0)),
        st.tuples(st.just("exchange"), st.just(""), st.integers(0, 5)),
        st.tuples(st.just("lost"), st.just(""), st.just(0)),
    )
)


@given(steps)
def test_the_broker_always_knows_what_is_wanted(actions: list[tuple[str, str, int]]) -> None:
    """After two exchanges the broker's view of the session equals the wishes, whatever happened before."""
    session: FetchSession[str, int] = FetchSession()
    wanted: dict[str, int] = {}
    broker: dict[str, int] = {}
    for action, key, number in actions:
        if action == "want":
            session.want(key, number)
            wanted[key] = number
        elif action == "forget":
            session.forget(key)
            wanted.pop(key, None)
        elif action == "lost":
            session.restart()
        else:
            (_, epoch), changed, forgotten = session.next_request()
            broker = {} if epoch == 0 else broker
            broker = {k: v for k, v in broker.items() if k not in forgotten} | changed
            session.answered(number)
            (_, epoch), changed, forgotten = session.next_request()
            assert not (changed.keys() & set(forgotten))
            broker = {} if epoch == 0 else broker
            broker = {k: v for k, v in broker.items() if k not in forgotten} | changed
            assert broker == wanted
            session.answered(number)


def test_what_is_forgotten_and_wanted_again_is_a_newcomer() -> None:
    """The broker leaves a partition that it takes for unchanged out of its answer: it must forget it first."""
    session: FetchSession[str, int] = FetchSession()
    session.want("a", 0)
    session.next_request()
    session.answered(9)
    session.forget("a")
    session.want("a", 0)
    assert session.next_request() == ((9, 1), {}, ["a"])
    assert session.unfinished
    session.answered(9)
    assert session.next_request() == ((9, 2), {"a": 0}, [])
    assert not session.unfinished
