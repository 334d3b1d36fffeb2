import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import MAX_CARDS
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.wire.kubelet.device_ids import (
    FIRST_CHARACTERS_PER_CARD,
    MAX_UNITS_PER_CARD,
    UNITS_PER_PAGE,
    are_own_ids,
    cards_of_ids,
    check_fits_kubelet,
    decode_device_id,
    decode_whole_card_id,
    device_ids_of_card,
    encode_device_id,
    encode_whole_card_id,
    is_device_id,
    is_whole_card_id,
    list_bytes,
)
from gcushare.wire.kubelet.plugin_messages import encode_devices

UNITS = st.integers(0, MAX_CARDS - 1).flatmap(
    lambda index: st.tuples(
        st.just(index),
        st.one_of(st.integers(0, UNITS_PER_PAGE[index]), st.integers(0, MAX_UNITS_PER_CARD[index] - 1)),
    )
)


@given(UNITS)
def test_an_id_names_its_card_and_unit_and_nothing_else(named: tuple[int, int]) -> None:
    device_id = encode_device_id(*named)
    assert len(device_id) == (3 if named[1] < UNITS_PER_PAGE[named[0]] else 4)
    assert device_id.isascii()
    assert device_id.isprintable()
    assert " " not in device_id
    assert decode_device_id(device_id) == named
    assert is_device_id(device_id)


def test_ids_are_fixed_permanently() -> None:
    """They stand in kubelets' checkpoints: a change here orphans running pods."""
    named = [(0, 0), (0, 15), (1, 0), (7, 32_767), (15, 0), (0, 185_555), (0, 185_556), (7, 81_919), (15, 17_672)]
    ids = ["000", "00F", "L00", ",%t", "}00", "K~~", "0000", "1*Pj", "0}00"]
    assert [encode_device_id(*pair) for pair in named] == ids


def test_ids_of_a_card_agree_with_single_ids_and_do_not_move_when_it_grows() -> None:
    small, large = device_ids_of_card(3, 9_000), device_ids_of_card(3, 20_000)
    assert large[:9_000] == small
    assert [large[0], large[8_836], large[19_999]] == [encode_device_id(3, unit) for unit in (0, 8_836, 19_999)]
    assert device_ids_of_card(3, 0) == []


def test_every_card_has_its_own_first_characters() -> None:
    assert sum(FIRST_CHARACTERS_PER_CARD) == 94
    firsts = [{device_id[0] for device_id in device_ids_of_card(i, UNITS_PER_PAGE[i])} for i in range(MAX_CARDS)]
    assert sum(map(len, firsts)) == len(set().union(*firsts)) == 94


@pytest.mark.parametrize(
    ("foreign", "origin"),
    [
        ("GPU-1234-_-5", "Aliyun's gpushare or the Go gcushare"),
        ("GPU-8f2e", "NVIDIA's device plugin"),
        ("00", "its layout is unknown"),
        ("0é0", "its layout is unknown"),
        (" 00", "its layout is unknown"),
        ("00000", "its layout is unknown"),
        ("", "its layout is unknown"),
    ],
)
def test_an_id_of_another_layout_is_explained_and_never_misread(foreign: str, origin: str) -> None:
    assert not is_device_id(foreign)
    with pytest.raises(RemoteContractError, match=origin):
        decode_device_id(foreign)


@pytest.mark.parametrize(
    ("units", "why"),
    [
        ({16: 4}, "card index 16 cannot be named"),
        ({0: 17_627_821}, "card 0 has 17627821 units, and at most 17627820"),
        ({0: 260_000}, "1 card with 260000 units in all: 4234444 bytes"),
        (dict.fromkeys(range(8), 32_769), "8 cards with 262152 units in all: 4194432 bytes"),
    ],
)
def test_what_the_kubelet_would_not_take_is_refused_with_numbers(units: dict[int, int], why: str) -> None:
    with pytest.raises(Refused, match=why):
        check_fits_kubelet(units)


@pytest.mark.parametrize(
    ("index", "unit", "last"), [(16, 0, 15), (-1, 0, 15), (0, -1, 17_627_819), (0, 17_627_820, 17_627_819)]
)
def test_what_the_layout_cannot_name_is_refused(index: int, unit: int, last: int) -> None:
    with pytest.raises(Refused, match=f"cannot be named in a device id; accepted: 0 to {last}$"):
        encode_device_id(index, unit)


def test_a_card_has_all_of_its_ids_or_none() -> None:
    ids = device_ids_of_card(15, 20_000)
    assert [len(ids), ids[0], ids[17_671], ids[17_672]] == [20_000, "}00", "~~~", "0}00"]
    last = MAX_UNITS_PER_CARD[15]
    assert (last, encode_device_id(15, last - 1)) == (1_678_840, "~~~~")
    with pytest.raises(Refused, match="unit 1678840 of card 15 cannot be named"):
        device_ids_of_card(15, last + 1)


def test_mib_units_of_eight_cards_of_80_gib_fit_a_kubelet_built_with_16_mib() -> None:
    check_fits_kubelet(dict.fromkeys(range(8), 32_768))
    units = dict.fromkeys(range(8), 81_920)
    with pytest.raises(Refused, match="in all: "):
        check_fits_kubelet(units)
    check_fits_kubelet(units, 16 << 20)
    ids = [device_id for index in units for device_id in device_ids_of_card(index, 81_920)]
    assert len(set(ids)) == 655_360
    assert len(encode_devices(ids, is_healthy=True)) == list_bytes(units) == 10_647_952


def test_of_a_long_foreign_id_so_much_is_shown() -> None:
    with pytest.raises(RemoteContractError, match=f"'{'x' * 80}'"):
        decode_device_id("x" * 100)


@pytest.mark.parametrize(
    ("second", "third", "ours"),
    [(b"0A~", b"zz!", True), (b"0 ~", b"zzz", False), (b"000", b"z\xffz", False), (b"0\n0", b"0\n0", False)],
)
def test_the_later_characters_of_many_ids_are_checked_at_once(second: bytes, third: bytes, ours: bool) -> None:
    assert are_own_ids(second, third) is ours


def test_ids_are_counted_by_card() -> None:
    assert cards_of_ids([*device_ids_of_card(0, 3), *device_ids_of_card(5, 2)]) == {0: 3, 5: 2}


@pytest.mark.parametrize("index", [0, 15])
def test_an_id_names_its_card_and_cannot_be_taken_for_a_unit(index: int) -> None:
    device_id = encode_whole_card_id(index)
    assert decode_whole_card_id(device_id) == index
    assert not is_device_id(device_id)


@pytest.mark.parametrize("foreign", ["card-16", "card-01", "card-", "card-x", "000", "GPU-8f2e", "card-²", ""])
def test_what_is_no_whole_card_is_refused(foreign: str) -> None:
    assert not is_whole_card_id(foreign)
    with pytest.raises(RemoteContractError, match="is not a whole card"):
        decode_whole_card_id(foreign)


def test_a_number_beyond_what_python_reads_is_refused_and_shown_in_part() -> None:
    with pytest.raises(RemoteContractError, match=f"device id 'card-{'9' * 75}' is not a whole card"):
        decode_whole_card_id("card-" + "9" * 5000)
