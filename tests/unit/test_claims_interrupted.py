"""The driver is killed at every write of every step, started again, and called again as the kubelet would."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gcushare.core.errors import RemoteContractError
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from tests.unit.claims_driver_values import DRIVER, a_claim, a_result, an_inventory, prepared_claims
from tests.unit.cut_off import CutOff, Ended, every_cut_off

CARDS = an_inventory(16)
CLAIM = a_claim("one", a_result("card-0", 4))
OTHER = a_claim("other", a_result("card-0", 8))


def cut_claims(root: Path, cut: CutOff) -> PreparedClaims:
    """A driver that is cut off at a write of its files."""
    checkpoint, cdi = CheckpointFile(root / "plugin"), ClaimCdiFiles(root / "cdi", DRIVER)
    for files, writes in ((checkpoint, ("write", "copy_aside")), (cdi, ("write", "remove", "remove_others"))):
        for name in writes:
            setattr(files, name, cut_at(cut, getattr(files, name)))
    return prepared_claims(root, checkpoint=checkpoint, cdi=cdi)


def cut_at(cut: CutOff, write: Callable[..., object]) -> Callable[..., object]:
    def written(*arguments: object) -> object:
        with cut.write():
            return write(*arguments)

    return written


def started(root: Path) -> PreparedClaims:
    prepared = prepared_claims(root)
    prepared.load()
    return prepared


def files(root: Path) -> set[str]:
    folder = root / "cdi"
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


def expect_sound(root: Path, prepared: PreparedClaims) -> None:
    """No file without its entry, and a file for every claim that counts as prepared."""
    complete = {uid for uid, claim in prepared.claims.items() if claim.is_complete}
    found = {name.removeprefix(f"{DRIVER}-claim-").removesuffix(".json") for name in files(root)}
    assert complete <= found <= set(prepared.claims)


def cut_claims_of(root: Path, cut: CutOff) -> PreparedClaims:
    """A driver that knows what stands in the checkpoint, and is cut off."""
    dying = cut_claims(root, cut)
    dying.claims = started(root).claims
    return dying


def test_a_prepare_that_is_cut_off_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    for cut in every_cut_off():
        root = tmp_path / f"{cut.at}-{cut.has_effect}"
        prepared_claims(root).prepare(OTHER, "other", CARDS)
        with suppress(Ended):
            cut_claims_of(root, cut).prepare(CLAIM, "one", CARDS)
        again = started(root)
        expect_sound(root, again)
        assert "other" in again.claims
        assert again.prepare(CLAIM, "one", CARDS).is_complete
        expect_sound(root, again)
        assert len(files(root)) == 2


def test_a_claim_whose_pod_goes_after_a_cut_off_prepare_leaves_nothing(tmp_path: Path) -> None:
    for cut in every_cut_off():
        root = tmp_path / f"{cut.at}-{cut.has_effect}"
        with suppress(Ended):
            cut_claims(root, cut).prepare(CLAIM, "one", CARDS)
        started(root).unprepare("one")
        assert (started(root).claims, files(root)) == ({}, set()), cut


def test_an_unprepare_that_is_cut_off_is_finished_by_the_next_call(tmp_path: Path) -> None:
    for cut in every_cut_off():
        root = tmp_path / f"{cut.at}-{cut.has_effect}"
        prepared_claims(root).prepare(CLAIM, "one", CARDS)
        with suppress(Ended):
            cut_claims_of(root, cut).unprepare("one")
        again = started(root)
        expect_sound(root, again)
        again.unprepare("one")
        assert (again.claims, files(root)) == ({}, set()), cut


def test_a_rebuild_that_is_cut_off_never_forgets_a_claim(tmp_path: Path) -> None:
    for cut in every_cut_off():
        root = tmp_path / f"{cut.at}-{cut.has_effect}"
        prepared_claims(root).prepare(CLAIM, "one", CARDS)
        (root / "plugin" / "checkpoint.json").write_text("{")
        with suppress(Ended):
            cut_claims(root, cut).rebuild([CLAIM])
        again = prepared_claims(root)
        try:
            again.load()
        except RemoteContractError:
            again.rebuild([CLAIM])
        assert set(again.claims) == {"one"}, cut
        assert len(files(root)) == 1, cut
