"""The report in a real browser: at every width, in both schemes, by keyboard, with hostile text."""

import pytest
from selenium.webdriver.common.keys import Keys

from runner.rundir import RunDir
from tests.browser.conftest import report_of
from tests.browser.pages import Page

SIZES = [(320, 900), (768, 1000), (1920, 1080)]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_any_width_in_light_and_dark(
    usual: RunDir, page: Page, size: tuple[int, int], dark: bool
) -> None:
    page.open(report_of(usual), width=size[0], height=size[1], dark=dark)
    assert page.overflow_px() == 0
    background = page.script("return getComputedStyle(document.body).backgroundColor")
    light = sum(int(x) for x in background[4:-1].split(",")) > 384
    assert light is not dark
    assert len(page.shot(f"report-{size[0]}-{'dark' if dark else 'light'}")) > 10_000
    assert page.errors() == []


def test_all_open_it_still_fits_the_narrowest_window(hostile: str, page: Page) -> None:
    page.open(hostile, width=320, height=900)
    page.script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.overflow_px() == 0
    page.shot("report-hostile-320")


def test_hostile_text_runs_nothing_and_is_shown(hostile: str, page: Page) -> None:
    page.open(hostile)
    page.script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.driver.title != "owned"
    assert page.script("return document.images.length") == 0
    assert "<script>document.title='owned'</script>" in page.script(
        "return document.body.innerText"
    )
    assert "\\u202e" in page.script("return document.body.innerText")
    assert page.errors() == []
    page.shot("report-hostile")


def test_an_injected_script_would_be_stopped_by_the_policy(usual: RunDir, page: Page) -> None:
    page.open(report_of(usual))
    page.script(
        "const s = document.createElement('div'); s.innerHTML = '<img src=x onerror=\"document"
        ".title=1\">'; document.body.append(s)"
    )
    assert page.driver.title != "1"
    assert any("Content Security Policy" in error for error in page.errors())


def test_a_link_opens_the_sample_that_it_names(usual: RunDir, page: Page) -> None:
    page.open(report_of(usual))
    link = page.driver.find_element("css selector", '#verdicts a[href^="#s-"]')
    target = link.get_attribute("href").partition("#")[2]
    link.send_keys(Keys.ENTER)
    opened = page.script(f"return document.getElementById('{target}').closest('details').open")
    assert opened is True


def test_keys_go_from_sample_to_sample_and_open_them(usual: RunDir, page: Page) -> None:
    page.open(report_of(usual))
    page.press("j")
    first = page.script("return document.activeElement.textContent")
    page.press("j")
    assert page.script("return document.activeElement.textContent") != first
    page.press(Keys.ENTER)
    assert page.script("return document.activeElement.closest('details').open") is True
    page.press("k")
    assert page.script("return document.activeElement.textContent") == first


def test_the_filter_leaves_what_fits(usual: RunDir, page: Page) -> None:
    page.open(report_of(usual))
    page.press("/")
    page.press("length_in_think")
    shown = "return document.querySelectorAll('details.sample:not([hidden])').length"
    assert page.script(shown) == 1
    assert "1 of" in page.script("return document.getElementById('filtered').textContent")
    page.shot("report-filtered")


def test_every_part_is_reached_by_tab(usual: RunDir, page: Page) -> None:
    page.open(report_of(usual))
    section = "const s = document.activeElement.closest('section'); return s && s.id"
    seen = set()
    for _ in range(60):
        page.press(Keys.TAB)
        seen.add(page.script(section))
    assert {"verdicts", "samples", "attempts", "settings"} <= seen


def test_it_reads_without_scripts(usual: RunDir, page: Page) -> None:
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open(report_of(usual))
        assert "Worth a look" in page.driver.find_element("tag name", "body").text
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
