"""The page as a reader of its HTML finds it: everything is there, and nothing can hurt."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest

from runner.conclusion import SET_FILE
from runner.records import Kind, RunStatus, SetFinding
from runner.report import REPORT_NAME, make_report
from runner.report.choosing import SAMPLES_MAX
from runner.report.collect import OUTPUT_CHARS
from runner.report.data import Shown, Text
from runner.report.page import SAMPLES_BYTES_MAX, marked, sample_groups
from runner.rundir import RunDir, replace_file
from runner.view.sample_view import Ending, Piece
from tests.report.conftest import Page, rewrite_state
from tests.runs.conftest import MIXED, MakeRun, Spec, failing

HOSTILE = (
    "<script>alert(1)</script></pre></details><img src=x onerror=alert(2)>"
    "\x1b[2J\x1b]0;owned\x07 \u202eevil\u202c &lt;b&gt; {{ 7*7 }} '\" --></style>"
)


class Reader(HTMLParser):
    """Tags with their attributes, and all text outside style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._raw = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._raw = tag if tag in ("style", "script") else ""

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def test_it_tells_the_whole_run(usual: RunDir, page: Page) -> None:
    text = Reader(page(usual)).text
    for told in (
        "planned 8 = ok 4 + rejected 1 + failed 1 + skipped 1 + pending 1",
        "stopped by themselves",
        "length_in_think",
        "unassigned",
        "failed",
        "unparsable 1",
        "truncated is 0.2, limit <= 0.1: NOT passed",
        "Output tokens per second",
        "Server: running",
        "attempt 2 begins",
        "server start 2",
        "client.concurrency",
        "sglang --tp 8",
        "Shortest",
        "longest, 1 of",
        "at random, 1 of",
        "It is 4.",
        "<|im_end|>",
    ):
        assert told in text, told


def test_every_reason_leads_to_a_sample_that_is_there(usual: RunDir, page: Page) -> None:
    reader = Reader(page(usual))
    ids = {attrs["id"] for _, attrs in reader.tags if "id" in attrs}
    links = [attrs["href"] for tag, attrs in reader.tags if tag == "a" and attrs.get("href")]
    assert any(str(link).startswith("#s-") for link in links)
    assert [link for link in links if str(link)[1:] not in ids] == []


def test_nothing_is_loaded_and_no_id_is_twice(usual: RunDir, page: Page) -> None:
    content = page(usual)
    reader = Reader(content)
    loading = {"img", "link", "iframe", "object", "embed", "video", "audio", "source", "base"}
    assert not loading & {tag for tag, _ in reader.tags}
    assert not any(name in ("src", "srcset", "style") for _, a in reader.tags for name in a)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", content.split("<body>")[0])
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_policy_allows_exactly_our_style_and_script(usual: RunDir, page: Page) -> None:
    content = page(usual)
    policy = next(a["content"] for t, a in Reader(content).tags if "http-equiv" in a) or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", content, flags=re.S)
        assert len(found) == 1
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_text_is_only_text(make_run: MakeRun, page: Page) -> None:
    """In an answer, a prompt, a verdict's detail, the stop reason, a setting and a log."""
    spec = Spec(
        0,
        output=f"x</think>{HOSTILE}<|im_end|>",
        question=HOSTILE,
        verdicts={"v": failing("r", detail=HOSTILE)},
    )
    run = make_run(
        [spec], reason=HOSTILE, names={"model": HOSTILE}, gates={HOSTILE: {"limit": HOSTILE}}
    )
    harmless = page(make_run([Spec(0)], "tiny-B4-thinking-greedy-00000000"))
    content = page(run)
    folder = run.attempt(1)
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text(HOSTILE)
    (folder / "overrides.txt").write_text(HOSTILE)
    content = page(run)
    for raw in ("<script>alert", "<img", "\x1b", "\u202e", "\x07"):
        assert raw not in content, raw
    reader = Reader(content)
    assert [t for t, _ in reader.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert "\\x1b[2J" in reader.text.replace("\\x1b [2J", "\\x1b[2J")
    assert "<script>alert(1)</script>" in reader.text
    assert "\\u202e" in reader.text
    assert "{{ 7*7 }}" in reader.text
    assert harmless.count("<details") <= content.count("<details")


def test_escapes_are_told_apart_from_what_the_model_wrote() -> None:
    assert str(marked("a\x1b\x1b<\\x1b")) == 'a<i class="esc">\\x1b\\x1b</i>&lt;\\x1b'


def test_a_run_with_only_a_plan_has_a_page(make_run: MakeRun, page: Page) -> None:
    text = Reader(page(make_run([Spec(0, state="pending")], run_json=False))).text
    assert "pending 1" in text
    assert "there is no run.json yet" in text
    assert "No samples yet" in text


def test_an_empty_run_directory_has_a_page(make_run: MakeRun, page: Page) -> None:
    run = make_run([], plan=False, run_json=False)
    assert "planned 0" in Reader(page(run)).text


def test_a_live_run_says_so(make_run: MakeRun, page: Page) -> None:
    run = make_run(MIXED, status=RunStatus.RUNNING)
    assert "The run is at work" in Reader(page(run)).text


def test_a_killed_run_says_so(make_run: MakeRun, page: Page) -> None:
    run = make_run(MIXED, status=RunStatus.RUNNING, pid=2**22 + 1)
    text = Reader(page(run)).text
    assert "dead" in text
    assert "The process was killed" in text


def test_without_a_tokenizer_there_is_a_page_without_texts(make_run: MakeRun, page: Page) -> None:
    run = make_run(MIXED)
    run.profile_json.unlink()
    text = Reader(page(run)).text
    assert "No sample could be decoded" in text
    assert "length_in_think" in text


def test_a_torn_metrics_file_and_broken_side_files_do_no_harm(usual: RunDir, page: Page) -> None:
    with usual.metrics.open("ab") as file:
        file.write(b'{"event":"metrics","at":1,"st')
    usual.provenance_json.write_bytes(b"{")
    (usual.attempt(1) / "config.yaml").write_bytes(b"\xff{:")
    (usual.attempt(2) / "config.yaml").write_bytes(b"- a\n- b\n")
    assert "Attempt 2" in Reader(page(usual)).text


def test_secrets_are_not_told(usual: RunDir, page: Page) -> None:
    config = b"server:\n  api_key: hunter22\ntracking:\n  uri: https://u:hunter22@host/\n"
    usual.config_yaml.write_bytes(config)
    (usual.attempt(2) / "config.yaml").write_bytes(config)
    (usual.attempt(2) / "overrides.txt").write_bytes(b"server.api_key=hunter22")
    (usual.attempt(2) / "log.txt").write_bytes(b"api_key=hunter22\n")
    assert "hunter22" not in page(usual)


def test_it_is_made_again(usual: RunDir, page: Page) -> None:
    page(usual)
    rewrite_state(usual, reason="another reason")
    assert "another reason" in page(usual)


def test_the_tile_of_flags_says_that_findings_over_the_whole_set_are_apart(
    page: Page, usual: RunDir
) -> None:
    tile = "1 sample; whole set apart"
    assert tile not in page(usual)
    found = SetFinding(
        validator="d", reason="r", severity="flag", category="B4", samples=4, share=1.0
    )
    replace_file(usual.verdicts("online") / SET_FILE, msgspec.json.encode([found]))
    assert tile in page(usual)


def test_the_figures_are_whole_pictures(usual: RunDir) -> None:
    make_report(usual)
    for name in ("lengths.svg", "time.svg"):
        root = ElementTree.fromstring((usual.path / REPORT_NAME).with_name(name).read_text())
        assert root.tag.endswith("svg")
        assert float(root.attrib["width"]) > 100


def test_the_samples_keep_within_their_bytes_whatever_the_model_wrote() -> None:
    """The worst text: every second character becomes an escape of its own."""
    piece = Piece("\u202e<" * (OUTPUT_CHARS // 2))
    text = Text(Kind.ANSWER, 1, [piece])
    ending = Ending("whole", cut=False, odd=False)
    samples = [
        Shown(f"B4-{n}-0", "B4", ("longest, 1 of 1",), ending, {}, [], [text], [text])
        for n in range(SAMPLES_MAX)
    ]
    groups, left_out = sample_groups(samples)
    shown = [sample for group in groups for sample in group.samples]
    assert len(shown) + left_out == SAMPLES_MAX
    assert left_out > 0
    assert sum(len(sample.encode()) for sample in shown) <= SAMPLES_BYTES_MAX


@pytest.mark.parametrize("outputs", ["", "<|im_end|>", "</think>" * 300, "a</think>" * 300])
def test_odd_outputs_are_shown(make_run: MakeRun, page: Page, outputs: str) -> None:
    assert "B4-0-0" in page(make_run([Spec(0, output=outputs, finish="length")]))
