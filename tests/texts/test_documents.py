"""The documents: links lead somewhere, both languages say the same, and every name in them exists in the programs."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import astuple
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from gcushare.core.units import GIB, parse_memory_unit
from gcushare.node.container_environment import CARD_BYTES, CONTAINER_BYTES
from gcushare.scheduler_extender.claims.template_keeper import NOT_OURS, TOO_MANY
from gcushare.vendors import VENDORS
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import record_keys
from gcushare.wire.contracts import (
    CLAIMS_LABEL,
    CLAIMS_ORDER_LABEL,
    KEPT_MARK,
    LEADS_LABEL,
    NODE_GROUP_LABEL,
    SERVE_LABEL,
    VENDOR_LABEL,
)
from gcushare.wire.kubelet.device_ids import KUBELET_MESSAGE_LIMIT_BYTES, finest_fitting_unit
from tests.charts import Object
from tests.documents import DOCS, GUIDES, ROOT, Document, every_document, guide
from tests.monitoring import alerts
from tests.source import modules

SOURCES = ROOT / "src" / "gcushare"
HAND_WRITTEN = tuple(name for name in GUIDES if name != "cli-reference.md")
TRANSLATED_COMMENT = re.compile(r"(?m)\s*#.*$")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]+)")
CASE_PATTERN = re.compile(r"(?m)^ +(-[^()\n]+)\)")
FOREIGN_FLAGS = {
    "all-namespaces",
    "config",
    "field-selector",
    "for",
    "namespace",
    "overwrite",
    "set",
    "set-file",
    "set-string",
}
FOREIGN_FLAGS |= {"gpu-memory-utilization", "reset-then-reuse-values", "trace", "validate", "vendor", "wait"}
FOREIGN_FLAGS |= {"kube-api-burst", "kube-api-qps", "metric-labels-allowlist", "minutes", "raw", "replicas", "storage"}
FOREIGN_FLAGS |= {"all", "network", "patch", "rm", "policy-config-file", "server-side", "slice-count", "type"}
FOREIGN_FLAGS |= {"bundle", "certificate-identity", "certificate-oidc-issuer", "check", "format", "ignore-missing"}
FOREIGN_FLAGS |= {"create-namespace", "install", "kube-version", "no-hooks", "repo", "reuse-values"}
"""Flags that the documents show of kubectl, helm, docker, Kubernetes' programs, vLLM, older programs and make."""

VARIABLE = re.compile(r"\b(?:ENFLAME|NVIDIA|ALIYUN|GCUSHARE)_[A-Z_]+\b(?!_)")
OWN_KEY = re.compile(r"gcushare\.io/[a-z]+(?:-[a-z]+)*")
VARIABLES_OF_OTHERS = {f"ENFLAME_CONTAINER_{name}" for name in ("SUB_CARD", "USABLE_GLOBAL_MEM")}
VARIABLES_OF_OTHERS.add("NVIDIA_GPU_MEMORY_REQUEST")
"""Those of the vendor's own plugin and of NVIDIA's toolkit, which no program of ours sets or reads."""
METRIC = re.compile(r"`(gcushare_[a-z_]+)`")
CHART_LABELS = {"gcushare.io/enabled", CLAIMS_LABEL, CLAIMS_ORDER_LABEL, LEADS_LABEL, SERVE_LABEL}
CHART_LABELS |= {KEPT_MARK, NODE_GROUP_LABEL, VENDOR_LABEL}
KUBERNETES_MESSAGES = {
    "0/1 nodes are available: 1 Insufficient enflame.com/gcu-memory.",
    "dial tcp … connect: connection refused",
    "UnexpectedAdmissionError",
    "no healthy devices present; cannot allocate unhealthy devices enflame.com/gcu-memory",
    "ResourceExhausted desc = grpc: received message larger than max (5365984 vs. 4194304)",
    "kubectl inspect",
}
"""Headings of docs/troubleshooting.md that quote Kubernetes, not our programs."""


@functools.cache
def strings_of_the_programs() -> frozenset[str]:
    """Every string constant of the source, the constant parts of f-strings among them, docstrings too."""
    nodes = (node for tree in modules().values() for node in ast.walk(tree))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def broken_links(document: Document) -> Iterator[str]:
    for link in document.links():
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = (document.path.parent / target).resolve()
        if not path.exists():
            yield f"{document.name}: {link} leads nowhere"
        elif anchor and anchor not in {h.anchor for h in (Document.read(path) if target else document).headings()}:
            yield f"{document.name}: {link} names no heading"


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert [fault for document in every_document() for fault in broken_links(document)] == []


def test_what_charts_and_scripts_name_of_the_documents_is_there() -> None:
    texts = (path.read_text() for path in (ROOT / "deploy").rglob("*.*") if path.is_file())
    named = {each for text in texts for each in re.findall(r"docs/[a-z0-9/-]+(?:\.md)?", text)}
    assert {each for each in named if not (ROOT / each).exists()} == set()


def test_every_document_has_its_twin_in_the_other_language() -> None:
    assert sorted(path.name for path in (DOCS / "zh").glob("*.md")) == list(GUIDES)


def test_both_languages_lead_to_each_other_and_to_the_same_documents() -> None:
    twins = {DOCS / name: DOCS / "zh" / name for name in GUIDES}
    for name in GUIDES:
        english, chinese = guide(name), guide(name, chinese=True)
        assert english.text.splitlines()[2] == f"[中文](zh/{name})"
        assert chinese.text.splitlines()[2] == f"[English](../{name})"
        wanted = {twins.get(path, path) for path in places(english)} - {chinese.path}
        assert places(chinese) - {english.path} == wanted, name


def places(document: Document) -> set[Path]:
    """Where its links lead to on this disk, other than to itself and to its pictures, which may show words."""
    targets = {link.partition("#")[0] for link in document.links() if "://" not in link} - {""}
    return {(document.path.parent / target).resolve() for target in targets if not target.endswith(".png")}


def different(of: Callable[[Document], Iterable[object]]) -> dict[str, list[object]]:
    """By guide, what ``of`` finds in one language only."""
    found = {name: set(of(guide(name))) ^ set(of(guide(name, chinese=True))) for name in HAND_WRITTEN}
    return {name: sorted(alone, key=str) for name, alone in found.items() if alone}


def form(document: Document) -> list[object]:
    """The levels of its headings, then its code, without comments, which are translated."""
    blocks = [(block.info, TRANSLATED_COMMENT.sub("", block.text)) for block in document.blocks()]
    indented = [TRANSLATED_COMMENT.sub("", text) for text in document.indented()]
    return [*(heading.level for heading in document.headings()), *blocks, *indented]


def test_both_languages_have_the_same_sections_and_code() -> None:
    assert different(lambda document: enumerate(form(document))) == {}


def test_both_languages_name_the_same_numbers() -> None:
    # Pictures of the two languages may differ.
    assert different(lambda document: NUMBER.findall(re.sub(r"!\[[^]]*\]", "", document.prose))) == {}


def test_both_languages_name_the_same_things() -> None:
    assert different(lambda document: document.spans()) == {}


def test_the_readmes_lead_to_every_guide() -> None:
    for readme, folder in (("README.md", "docs"), ("README.zh-CN.md", "docs/zh")):
        links = set(Document.read(ROOT / readme).links())
        assert sorted({f"{folder}/{name}" for name in GUIDES} - links) == []


def unknown(pattern: re.Pattern[str], known: Collection[str], documents: Iterable[Document]) -> list[tuple[str, str]]:
    """What matches the pattern and is not known, with the document that names it."""
    return [(each.name, word) for each in documents for word in sorted({*pattern.findall(each.text)} - {*known})]


def test_every_annotation_of_ours_exists() -> None:
    known = {value for value in vars(keys).values() if isinstance(value, str) and value.startswith("gcushare.io/")}
    known |= {vendor.inventory_annotation for vendor in VENDORS} | {vendor.cordon_annotation for vendor in VENDORS}
    known |= {vendor.claims.extender_resource.partition(".")[2] for vendor in VENDORS}
    assert unknown(OWN_KEY, known | CHART_LABELS, every_document()) == []


def test_the_reference_lists_every_annotation_that_the_programs_know() -> None:
    items = guide("api-reference.md").items("Annotations on pods")
    listed = {name for item in items for name in re.findall(r"`(\S+)`", item.partition(" (")[0])}
    own = {keys.CARD_UUID, keys.CARD_MODE, keys.CORRECTED, keys.NODE_POLICY, keys.CARD_POLICY, keys.USE_CARDS}
    own |= {keys.AVOID_CARDS, keys.CARDS, keys.WHOLE_CARD_POLICY, keys.OVER_USE, keys.COMPUTE_SHARE}
    records = {key for vendor in VENDORS for key in record_keys(vendor)}
    assert (own | records) - listed == set()


def test_every_flag_exists() -> None:
    scripts = (path.read_text(encoding="utf-8") for path in (ROOT / "deploy").rglob("*.sh"))
    benchmarks = (path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").rglob("*.py"))
    own = [guide("cli-reference.md").text]
    own += [case for text in scripts for case in CASE_PATTERN.findall(text)]  # what deploy.sh and the others take
    own += [flag for text in benchmarks for flag in re.findall(r'"--[a-z-]+"', text)]
    known = FOREIGN_FLAGS.union(*map(FLAG.findall, own))
    assert unknown(FLAG, known, map(guide, HAND_WRITTEN)) == []


def test_every_variable_exists() -> None:
    settings = set(re.findall(r"env:\s+([A-Z_]+)", guide("cli-reference.md").text))
    texts = (path.read_text() for folder in ("deploy", "scripts") for path in (ROOT / folder).rglob("*.sh"))
    scripts = set(VARIABLE.findall(" ".join(texts)))
    known = strings_of_the_programs() | settings | scripts | VARIABLES_OF_OTHERS
    # A word that ends in an underscore stands for every variable that begins so.
    missing = unknown(VARIABLE, known, map(guide, HAND_WRITTEN))
    assert [each for each in missing if not (each[1][-1] == "_" and any(k.startswith(each[1]) for k in known))] == []


def test_every_variable_of_a_container_is_explained() -> None:
    text = guide("user-guide.md").text
    for vendor in VENDORS:
        names = vendor.environment
        for name in filter(None, (*astuple(names), CONTAINER_BYTES, CARD_BYTES)):
            assert f"`{name}`" in text


def test_every_metric_stands_in_the_reference() -> None:
    # That the reference lists what the programs serve is tested where they run: tests/playground.
    assert unknown(METRIC, METRIC.findall(guide("api-reference.md").text), map(guide, HAND_WRITTEN)) == []


def test_the_events_are_those_that_the_programs_post() -> None:
    listed = {name for item in guide("api-reference.md").items("Events") for name in re.findall(r"^`(\w+)` \(", item)}
    assert listed - strings_of_the_programs() == set()
    posted = {NOT_OURS, TOO_MANY}
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        posted |= set(
            re.findall(
                r'(?:about_node|about_pod|_announce|_warn|_refuse)\(\s*(?:entry\.ref,\s*|write\.pod,\s*|pod,\s*)?"([A-Z]\w+)"',
                text,
            )
        )
        posted |= set(re.findall(r'REFUSED_REASON = "(\w+)"', text))
    assert len(posted) > 5
    assert posted - listed == set()


def fragments(message: str) -> list[str]:
    """The parts of a quoted message that are the same every time."""
    return [part.strip(" ();,") for part in message.split("…") if part.strip(" ();,")]


def test_every_message_that_people_search_for_is_printed_by_somebody() -> None:
    text = "\0".join(sorted(strings_of_the_programs()))
    quoted = {s for h in guide("troubleshooting.md").headings() for s in re.findall("`(.+?)`", h.title)}
    assert len(quoted) > 20
    ours = quoted - KUBERNETES_MESSAGES
    assert [(message, part) for message in sorted(ours) for part in fragments(message) if part not in text] == []


def test_the_table_of_units_is_what_the_kubelet_can_take() -> None:
    rows = guide("admin-guide.md").rows("Memory units")
    assert len(rows) == 4
    for cards, *cells in rows:
        count, size = (int(number) for number in re.findall(r"\d+", cards))
        for name, cell in zip(("1", "0.1", "0.01", "0.001", "MiB"), cells, strict=True):
            units = parse_memory_unit(name).units_in(size * GIB)
            memory = dict.fromkeys(range(count), size * GIB)
            fits = finest_fitting_unit(memory, [name], KUBELET_MESSAGE_LIMIT_BYTES) is not None
            assert cell == (f"{count * units:,}" if fits else "does not fit"), (cards, name)


def missing_tests(text: str) -> Iterator[str]:
    """Files, and tests in them, that a document names as `folder/test_file.py::test_name` and that do not exist."""
    for file, name in re.findall(r"`(\w+/test_\w+\.py)(?:::(\w+))?`", text):
        path = ROOT / "tests" / file
        if not path.is_file() or (name and f"def {name}(" not in path.read_text()):
            yield f"{file}::{name}"


def test_every_test_that_shows_how_a_threat_is_stopped_exists() -> None:
    text = (ROOT / "docs/security.md").read_text()

    assert len(re.findall(r"`\w+/test_", text)) > 20
    assert list(missing_tests(text)) == []


def test_the_command_line_reference_is_in_step_with_the_programs() -> None:
    words = (sys.executable, "-m", "scripts.cli_reference", "--check")
    ended = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_fraction_of_the_user_guide_is_that_of_each_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own lines: 24 GiB on two cards of 16 are three quarters of each."""
    (lines,) = [block.text for block in guide("user-guide.md").blocks() if "import torch" in block.text]
    fractions: dict[int | str, float] = {}
    cuda = SimpleNamespace(
        device_count=lambda: 2,
        get_device_properties=lambda card: SimpleNamespace(total_memory=16 * GIB),
        set_per_process_memory_fraction=lambda share, card: fractions.update({card: share}),
        set_device=lambda card: fractions.update(used=card),
    )
    monkeypatch.setitem(sys.modules, "torch", cast(ModuleType, SimpleNamespace(cuda=cuda)))
    monkeypatch.setenv(CONTAINER_BYTES, str(24 * GIB))
    exec(compile(lines, "user-guide.md", "exec"), {})
    assert fractions == {0: 0.75, 1: 0.75, "used": 0}


ALERTS = [pytest.param(rule, id=rule["alert"]) for rule in alerts()]


@pytest.mark.parametrize("chinese", [False, True], ids=["English", "Chinese"])
def test_every_alert_has_a_section_and_every_section_an_alert(chinese: bool) -> None:
    sections = [heading.title for heading in guide("runbook.md", chinese=chinese).headings() if heading.level == 2]
    assert sections == list(dict.fromkeys(sections))
    assert sorted(sections) == sorted(rule["alert"] for rule in alerts())


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_says_how_urgent_it_is_what_is_wrong_and_where_to_read_on(rule: Object) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["description"]) > 60
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    titles = {heading.anchor: heading.title for heading in Document.read(ROOT / path).headings()}
    assert titles[anchor] == rule["alert"]


@pytest.mark.parametrize("chinese", [False, True], ids=["English", "Chinese"])
def test_every_section_has_numbered_steps(chinese: bool) -> None:
    _, *sections = guide("runbook.md", chinese=chinese).text.split("\n## ")
    assert [section.split("\n")[0] for section in sections if "\n1. " not in section] == []
