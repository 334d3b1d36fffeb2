"""A pod that comes into the book, or whose record somebody spoils, while the kubelet has long given it its cards."""

import msgspec
import pytest

from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations.record import decode_record
from gcushare.wire.objects import Pod
from tests.unit.test_plugin_pod_book import UNITS, UUIDS, book_of, init_pod, pod, written
from tests.unit.test_plugin_two_resources import ended, in_use, whole_pod

CARD = "enflame.com/gcu-device-id"


def spoilt(each: Pod, **annotations: str) -> Pod:
    """The pod with another text in place of its card, and other annotations."""
    found = each.metadata.annotations | {CARD: "zzz"} | {k.replace("__", "."): v for k, v in annotations.items()}
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, annotations=found))


def waiting(book: PodStore) -> list[str]:
    return [candidate.pod.name for candidate in (*book.candidates(), *book.candidates(whole=True))]


@pytest.mark.parametrize("key", [pytest.param("d/a", id="by name"), pytest.param("uid-a", id="by uid")])
def test_a_running_pod_that_the_watch_shows_late_is_no_candidate_and_nothing_is_kept_for_it(key: str) -> None:
    book = book_of()
    book.reconcile({key: {"c0": {0: 4}}})
    assert book.apply(pod("a", 4, card=0, assigned=True))
    assert (waiting(book), book.promised(), book.held_units()) == ([], {}, {0: 4})


def test_a_running_pod_with_whole_cards_that_the_watch_shows_late_is_no_candidate() -> None:
    book = book_of()
    book.reconcile({}, {"d/w": {"c0": {1: 1}}})
    book.apply(whole_pod("w", cards="1", assigned=True))
    assert (waiting(book), book.promised_whole(), book.held_units(UNITS)) == ([], {}, {1: 16})


def test_a_pod_that_the_kubelet_shows_half_served_goes_on_where_it_is() -> None:
    book = book_of()
    book.reconcile({"d/a": {"c0": {3: 4}}})
    book.apply(pod("a", 4, 2, card=0))
    (candidate,) = book.candidates()
    assert (candidate.served, candidate.card_indexes) == (1, (3,))


def test_a_pod_that_took_the_name_of_another_gets_nothing_of_what_is_shown_under_that_name() -> None:
    for is_over in (True, False):
        book = book_of(pod("a", 4, uid="old"))
        book.reconcile({"d/a": {"c0": {0: 4}}})
        book.forget("old", is_over=is_over)
        book.apply(pod("a", 4, uid="new", card=1))
        assert waiting(book) == ["a"], f"{is_over=}"
    book = book_of(pod("a", 4, uid="old"))
    book.reconcile({"d/a": {"c0": {0: 4}}})
    book.apply(pod("a", 4, uid="new", card=1))
    assert [candidate.pod.uid for candidate in book.candidates()] == ["new"], "both are here for a moment"


def test_a_pod_that_says_it_was_served_waits_for_nothing_until_the_kubelet_was_asked_about_it() -> None:
    book = book_of()
    book.reconcile({})
    book.apply(pod("a", 4, card=2, assigned=True))
    assert (waiting(book), book.promised(), in_use(book)) == ([], {}, ({2}, set()))
    book.reconcile({}, asked=())
    assert waiting(book) == [], "the record was read before the pod was known: its silence says nothing"
    book.reconcile({}, asked={"uid-a"})
    assert (waiting(book), in_use(book)) == (["a"], (set(), set()))


def test_a_pod_in_doubt_inherits_no_cards_of_another() -> None:
    book = book_of(pod("moved", 4, card=0))
    book.reconcile({})
    book.apply(pod("doubtful", 4, card=1, assigned=True))
    book.reconcile({"d/moved": {"c0": {1: 4}}}, asked={"uid-moved"})
    assert book.entries["uid-doubtful"].promise == (1,)


def test_one_record_by_uid_and_the_next_by_name_settle_an_allocation_only_once() -> None:
    book = book_of(pod("a", 4, card=0), pod("b", 4, card=0))
    book.reconcile({"uid-a": {"c0": {0: 4}}})
    book.note_allocated("uid-b", "c0", {0: 4}, 0.0)
    book.reconcile({"d/a": {"c0": {0: 4}}})
    assert (book.open_guesses, waiting(book)) == (1, [])
    book.reconcile({"d/a": {"c0": {0: 4}}, "uid-a": {"c0": {0: 4}}})
    assert (book.open_guesses, waiting(book)) == (1, [])
    book.reconcile({"uid-a": {"c0": {0: 4}}, "uid-b": {"c0": {0: 4}}})
    assert book.open_guesses == 0


# Records that somebody spoils


def test_a_spoilt_record_of_a_running_pod_is_written_anew_from_what_the_kubelet_gave() -> None:
    book = book_of(pod("a", 4, card=0, assigned=True))
    book.reconcile({"d/a": {"c0": {0: 4}}})
    book.apply(spoilt(pod("a", 4)))
    assert (waiting(book), book.promised(), book.held_units(), book.users_of(0, whole=False)) == (
        [],
        {},
        {0: 4},
        ["d/a"],
    )
    (write,) = book.writes(UUIDS, UNITS, 99)
    record = decode_record(ENFLAME, write.annotations)
    assert record is not None
    assert (record.card_indexes, record.pod_units, record.assigned, record.assign_time_ns) == ((0,), 4, True, 99)
    assert (write.placed_here, write.corrected_from, "gcushare.io/corrected" in write.annotations) == (False, (), False)
    assert "is not a whole number" in write.mended
    assert [each.pod.name for each in book.unreadable] == ["a"]
    book.note_written(write)
    book.apply(pod("a", 4, card=0, assigned=True))
    assert (book.unreadable, written(book), waiting(book), book.held_units()) == ((), {}, [], {0: 4})


def test_after_a_restart_a_spoilt_record_hides_nothing_whatever_else_was_written_on_the_pod() -> None:
    for extra in ({}, {"gcushare__io/cards": "many"}, {"gcushare__io/cards": "2"}):
        book = book_of()
        book.reconcile({"uid-a": {"c0": {3: 4}}})
        book.apply(spoilt(pod("a", 4, card=0), **extra))
        assert written(book) == {"a": ((3,), ())}, extra
        assert (waiting(book), book.held_units()) == ([], {3: 4}), extra


def test_a_spoilt_record_may_have_said_that_the_pod_was_served() -> None:
    book = book_of()
    book.reconcile({})
    book.apply(spoilt(pod("a", 4)))
    assert waiting(book) == []
    assert book.missing_from(frozenset()) == ["uid-a"], "the kubelet's checkpoint is asked"
    book.reconcile({})
    assert waiting(book) == ["a"], "it was not, and is placed like a pod without a record"


def test_a_waiting_pod_whose_record_is_spoilt_keeps_the_card_that_was_planned() -> None:
    book = book_of(pod("a", 4, card=5))
    book.reconcile({})
    book.apply(spoilt(pod("a", 4)))
    assert [candidate.card_indexes for candidate in book.candidates()] == [(5,)]
    assert book.promised() == {5: 4}
    assert written(book) == {}
    book.reconcile({"d/a": {"c0": {5: 4}}})
    assert written(book) == {"a": ((5,), ())}


def test_a_false_card_on_a_served_pod_moves_no_other_pods_card() -> None:
    book = book_of(pod("a", 4, card=0, assigned=True), pod("b", 4, card=0))
    book.reconcile({"d/a": {"c0": {0: 4}}})
    book.apply(pod("a", 4, card=7, assigned=True))
    book.reconcile({"d/a": {"c0": {0: 4}}})
    assert [candidate.card_indexes for candidate in book.candidates()] == [(0,)]
    assert written(book) == {"a": ((0,), (7,))}


def test_a_spoilt_record_of_whole_cards_leaves_those_of_its_init_containers_in_use() -> None:
    book = book_of(whole_pod("w", 1, "2,3", init=2))
    book.reconcile({}, {"d/w": {"c0": {3: 1}}})
    for change in (spoilt(whole_pod("w", 1, "2,3", init=2)), whole_pod("w", 1, "6", init=2)):
        book.apply(change)
        assert in_use(book) == (set(), {2, 3})
        assert [write.cards for write in book.writes(UUIDS, UNITS, 1)] == [(2, 3)]


def test_an_authors_wish_that_turns_unreadable_takes_nothing_from_a_pod_that_is_here() -> None:
    book = book_of(pod("a", 4, card=None))
    book.reconcile({"uid-a": {"c0": {0: 4}}})
    changed = pod("a", 4, card=None)
    changed.metadata.annotations["gcushare.io/cards"] = "many"
    book.apply(changed)
    assert (book.held_units(), written(book)) == ({0: 4}, {"a": ((0,), ())})


def test_a_pod_that_has_ended_is_forgotten_even_where_its_record_is_spoilt() -> None:
    book = book_of(init_pod("a", 1, 4))
    book.reconcile({"d/a": {"c0": {0: 4}}})
    book.apply(spoilt(init_pod("a", 1, 4)))
    assert book.apply(ended(spoilt(init_pod("a", 1, 4))))
    assert (book.unreadable, in_use(book), dict(book.entries)) == ((), (set(), set()), {})
