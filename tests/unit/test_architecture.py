"""The architecture document names what is there: packages, sub-packages and the modules of its journeys."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "gcushare"
MOST_SIDE_BY_SIDE = 20
"""Modules in one folder; more want sub-packages named by what they do."""

DOCUMENTS = [ROOT / "docs/architecture.md", ROOT / "docs/zh/architecture.md"]


def packages(folder: Path) -> Iterator[Path]:
    return (each.parent for each in sorted(folder.rglob("__init__.py")))


def house(document: Path) -> dict[str, str]:
    items = re.findall(r"^- `([a-z_]+)`(?:: |：)(.*(?:\n {2}.*)*)", document.read_text(), re.MULTILINE)
    return dict(items)


@pytest.mark.parametrize("document", DOCUMENTS, ids=["en", "zh"])
def test_every_package_of_the_house_is_in_the_list(document: Path) -> None:
    there = {each.name for each in HOUSE.iterdir() if (each / "__init__.py").exists()}
    assert set(house(document)) == there | {"playground"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=["en", "zh"])
def test_every_sub_package_is_named_with_its_package(document: Path) -> None:
    rows = house(document)
    for package in packages(HOUSE):
        parts = package.relative_to(HOUSE).parts
        if len(parts) == 2 and parts[1] not in ("protos", "static"):
            assert f"`{parts[1]}`" in rows[parts[0]], f"{'/'.join(parts)} is not in the row of {parts[0]}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=["en", "zh"])
def test_every_module_of_a_journey_exists(document: Path) -> None:
    text = document.read_text()
    # From the first module named to the next list.
    journeys = text[text.index("`scheduler_extender/http/routes`") :].split("\n- ")[0]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", journeys)
    assert len(named) > 20
    everything = {str(each.relative_to(HOUSE).with_suffix("")) for each in HOUSE.rglob("*.py")}
    for name in named:
        assert any(each == name or each.endswith(f"/{name}") for each in everything), f"no module {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=["en", "zh"])
def test_a_journey_passes_few_modules(document: Path) -> None:
    """A request, a sick card, and inspect; both languages name the same modules."""
    first = DOCUMENTS[0].read_text()
    assert journeys(document.read_text()) == journeys(first)
    request, *others = journeys(first)
    assert len(request) <= 25
    assert len(request[: request.index("device_plugin/api_server")]) <= 15, "the extender's side"
    assert [len(each) <= most for each, most in zip(others, (13, 18), strict=True)] == [True, True]


def journeys(text: str) -> list[list[str]]:
    """The modules that each of the three paragraphs names, in its order."""
    start = text.index("`scheduler_extender/http/routes`")
    paragraphs = text[start:].split("\n## ")[0].split("\n\n")
    found = [list(dict.fromkeys(re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", each))) for each in paragraphs]
    return [each for each in found if each]


@pytest.mark.parametrize("package", list(packages(HOUSE)), ids=lambda each: str(each.relative_to(HOUSE)))
def test_no_folder_holds_more_modules_than_a_reader_can_see(package: Path) -> None:
    modules = [each.name for each in package.glob("*.py") if each.name != "__init__.py" and "_pb2" not in each.name]
    assert len(modules) <= MOST_SIDE_BY_SIDE, modules
