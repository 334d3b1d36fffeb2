"""The tree is as the architecture document says: its packages and journeys, unique names and no circles of imports."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from scripts.mutants import GROUPS

from tests.source import HOUSE, ROOT, modules, statements

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


def test_both_languages_show_the_same_journeys_of_modules_that_exist() -> None:
    """That each is really called, in this order, is played by ``protocol/test_journeys.py``."""
    english, chinese = (journeys(document.read_text()) for document in DOCUMENTS)
    assert english == chinese
    assert [len(each) <= most for each, most in zip(english, (11, 13, 16, 13, 15), strict=True)] == [True] * 5
    for name in (name for each in english for name in each):
        assert (HOUSE / f"{name}.py").exists(), f"no module {name}"


def test_mutants_are_made_of_modules_and_run_with_tests_that_exist() -> None:
    for name, group in GROUPS.items():
        missing = [each for each in group.tests if not (ROOT / "tests" / each).is_file()]
        missing += [each for each in group.modules if not any(HOUSE.glob(each))]
        assert missing == [], name


def test_contributing_names_every_package_and_every_journey() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    there = {each.parent.name for each in HOUSE.glob("*/__init__.py")}
    assert {name for name in there if f"`src/gcushare/{name}" not in text} == set()
    names = re.findall(r"^\*\*([^*.]+)\.?\*\*", DOCUMENTS[0].read_text(), re.MULTILINE)
    assert len(names) == 5
    assert [name for name in names if f"**{name.lower()}**" not in text.lower()] == []


def test_no_two_classes_have_the_same_name() -> None:
    found = (each for tree in modules().values() for each in statements(tree))
    classes = Counter(each.name for each in found if isinstance(each, ast.ClassDef))
    assert [name for name, count in classes.items() if count > 1] == []


def imports_of(module: str, tree: ast.Module, there: Collection[str]) -> set[str]:
    """The modules that one names anywhere: also for types alone, and inside functions."""
    named: set[str] = set()
    for each in statements(tree):
        if isinstance(each, ast.Import):
            named.update(alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module:
            named.update((each.module, *(f"{each.module}.{alias.name}" for alias in each.names)))
    return {name for name in named if name in there} - {module}


def circles(imports: dict[str, set[str]]) -> set[str]:
    """The modules in circles: what is left when those that import or are imported by nothing left are removed."""
    left = dict(imports)
    while True:
        imported = {name for names in left.values() for name in names}
        ends = {name for name, names in left.items() if not names or name not in imported}
        if not ends:
            return set(left)
        left = {name: names - ends for name, names in left.items() if name not in ends}


@pytest.mark.parametrize(
    "package", [HOUSE, ROOT / "playground/src/gcushare_playground", ROOT / "simulation"], ids=lambda each: each.name
)
def test_no_modules_import_each_other_not_even_for_types_or_late(package: Path) -> None:
    names = {name: f"{package.name}.{name.removesuffix('.py').replace('/', '.')}" for name in modules(package)}
    trees = {names[name]: tree for name, tree in modules(package).items()}
    imports = {name: imports_of(name, tree, trees) for name, tree in trees.items()}
    assert circles({"a": {"b", "e"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == {"a", "b", "c"}
    assert circles(imports) == set()


def journeys(text: str) -> list[list[str]]:
    """The modules that each journey names, in its order."""
    section = text[text.index("**filter.**") :].split("\n## ")[0]
    return [re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", each) for each in section.split("\n\n") if each.startswith("**")]


@pytest.mark.parametrize("package", list(packages(HOUSE)), ids=lambda each: str(each.relative_to(HOUSE)))
def test_no_folder_holds_more_modules_than_a_reader_can_see(package: Path) -> None:
    modules = [each.name for each in package.glob("*.py") if each.name != "__init__.py" and "_pb2" not in each.name]
    assert len(modules) <= MOST_SIDE_BY_SIDE, modules


def log_calls(tree: ast.Module) -> list[ast.Call]:
    return [
        call
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in {"log", "logger"}
    ]


def test_no_log_call_formats_a_field_itself() -> None:
    calls = {name: log_calls(tree) for name, tree in modules().items()}
    assert sum(map(len, calls.values())) > 100
    own = [
        f"{name}:{text.lineno} {text.value!r}"
        for name, found in calls.items()
        for call in found
        for argument in call.args
        for text in ast.walk(argument)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search(r"\w=(%|\{|$)", text.value)
    ]
    assert own == [], "use gcushare.core.log_fields.fields, which quotes what needs it"
