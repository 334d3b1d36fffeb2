"""The page's files: nothing inline, nothing from elsewhere, every word in both languages, kept by their contents."""

from __future__ import annotations

import gzip
import re
from html.parser import HTMLParser
from importlib import resources

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gcushare.core.explain.verdicts import Verdict
from gcushare.scheduler_extender.dashboard.assets import PAGE, Assets
from gcushare.scheduler_extender.dashboard.security_headers import CONTENT_SECURITY_POLICY

STATIC = resources.files("gcushare.scheduler_extender.dashboard") / "static"
FILES = {each.name: each.read_text(encoding="utf-8") for each in STATIC.iterdir()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
COMMENT = re.compile(r"/\*.*?\*/|(?m:^\s*//.*$)", re.DOTALL)
TINY = {PAGE: b'<link href="static/a.css">', "a.css": b"a{}" * 100}


def ask(name: str = "", version: str = "") -> web.Request:
    return make_mocked_request("GET", "/", match_info={"name": name, "version": version})


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def tags() -> Tags:
    parsed = Tags()
    parsed.feed(FILES[PAGE])
    return parsed


def test_the_page_has_nothing_inline(tags: Tags) -> None:
    assert tags.inline == []
    assert [
        (tag, name) for tag, attrs in tags.found for name in attrs if name.startswith("on") or name == "style"
    ] == []


def test_every_script_is_reached_from_the_page(tags: Tags) -> None:
    reached, queue = set[str](), ["main.js"]
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += re.findall(r'from "\./([\w.-]+)"', SCRIPTS[name])

    assert reached == set(SCRIPTS)


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host(name: str) -> None:
    assert [url for url in re.findall(r"https?://[\w.-]+", FILES[name]) if url != "http://www.w3.org"] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name: str) -> None:
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser")
    code = COMMENT.sub("", SCRIPTS[name])

    assert [word for word in forbidden if word in code] == []


def test_the_policy_lets_nothing_in_but_ourselves() -> None:
    policy = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))

    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) <= {"'self'", "'none'", "'script'"}
    assert {"script-src", "style-src", "connect-src", "frame-ancestors", "base-uri", "trusted-types"} <= policy.keys()


def words_of(language: str) -> dict[str, str]:
    text = SCRIPTS["text.js"]
    block = re.search(rf"^  {language}: \{{\n(.*?)^  \}},$", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    entry = re.compile(r'(?:^|[\s,])(?:"([^"]+)"|([a-z]\w*)): "((?:[^"\\]|\\.)*)"')
    return {quoted or bare: value for quoted, bare, value in entry.findall(block[1])}


def test_both_languages_have_the_same_words_with_the_same_blanks() -> None:
    english, chinese = words_of("en"), words_of("zh")
    blanks = re.compile(r"\{(\w+)\}")

    assert len(english) > 120
    assert english.keys() == chinese.keys()
    assert {key for key in english if set(blanks.findall(english[key])) != set(blanks.findall(chinese[key]))} == set()


def test_every_word_that_the_page_uses_exists_and_the_other_way_round() -> None:
    code = "\n".join(text for name, text in SCRIPTS.items() if name != "text.js")
    literal = set(re.findall(r'\b(?:t|counted)\("([^"]+)"', code)) | set(
        re.findall(r'data-t(?:-\w+)?="([^"]+)"', FILES[PAGE])
    )
    made = re.findall(r"\bt\(`([^`$]*)\$\{[^}]+\}([^`]*)`[,)]", code)
    own = set(re.findall(r'\bt\("([^"]+)"', SCRIPTS["text.js"]))
    known = words_of("en").keys()

    assert literal - known == set()
    reached = (
        literal | own | {key for key in known for head, tail in made if key.startswith(head) and key.endswith(tail)}
    )
    states = {"live", "connecting", "reconnecting", "syncing"}
    kinds = {"waiting", "sick", "unready", "uncounted", "unreadable", "cordoned", "corrected", "overuse"}
    assert {key for key in known - reached - states - kinds if not key.startswith("reason-")} == set()


def test_every_reason_of_the_explanations_has_words() -> None:
    reasons = {key.removeprefix("reason-") for key in words_of("en") if key.startswith("reason-")}

    assert reasons == {verdict.value for verdict in Verdict}


async def test_files_are_kept_permanently_and_the_page_is_asked_about() -> None:
    assets = Assets(TINY)
    kept = await assets.file(ask("a.css", assets.version))

    assert (kept.body, kept.headers["Cache-Control"]) == (TINY["a.css"], "public, max-age=31536000, immutable")
    assert (await assets.page(ask())).headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(("name", "version"), [("b.css", ""), ("a.css", "old"), (PAGE, ""), ("../a.css", "")])
async def test_other_names_and_versions_are_not_found(name: str, version: str) -> None:
    assets = Assets(TINY)

    with pytest.raises(web.HTTPNotFound):
        await assets.file(ask(name, version or assets.version))


def test_everything_together_is_small() -> None:
    assert sum(len(gzip.compress(text.encode())) for text in FILES.values()) < 100_000
