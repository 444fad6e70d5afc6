"""A real Chromium without a window, for looking at pages: at a size, light or dark, by keyboard."""

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
DRIVER = shutil.which("chromedriver") or ""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


class Page:
    """One browser. `errors` are what pages complained of on the console since the last look."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str, *, width: int = 1400, height: int = 1000, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._tell("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(url)

    def errors(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]

    def script(self, code: str) -> Any:
        return self.driver.execute_script(code)

    def press(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def overflow_px(self) -> int:
        """How far the page is wider than its window."""
        code = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.script(code))

    def shot(self, name: str, *, whole: bool = True) -> bytes:
        """A picture; kept under $RAWTOK_SCREENSHOTS, where that is set."""
        found = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole}
        )
        data = base64.b64decode(found["data"])
        folder = os.environ.get("RAWTOK_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, f"{name}.png").write_bytes(data)
        return data

    def _tell(self, command: str, arguments: dict[str, Any]) -> None:
        self.driver.execute_cdp_cmd(command, arguments)


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """Start one, end it."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Page(driver)
    finally:
        driver.quit()
