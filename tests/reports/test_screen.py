"""The report as a browser lays it out: one screen, no sideways scrolling, readable in the dark."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from reports.dossier import Dossier
from reports.render import render
from tests.reports import samples
from tests.reports.poison import poisoned

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DARK = "--blink-settings=preferredColorScheme=0"
# WCAG 2.2, 1.4.3: contrast of text.
MIN_CONTRAST = 4.5

# Runs in a copy of the page alone: the report itself neither holds nor allows a script.
PROBE = """
<pre id="probe"></pre><script>
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const linear = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
const behind = e => {
  for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
let worst = [99, ""], texts = 0;
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(e);
  if (!own || style.display === "none" || /^(script|title|desc|style)$/i.test(e.tagName)) continue;
  texts += 1;
  const front = rgb(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const [a, b] = [light(front), light(behind(e))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < worst[0]) worst = [contrast, e.tagName + " " + e.textContent.slice(0, 40)];
}
document.getElementById("probe").textContent = JSON.stringify({
  bottom: document.getElementById("first-screen").getBoundingClientRect().bottom,
  scope: document.querySelector(".scope").getBoundingClientRect().bottom,
  width: document.documentElement.scrollWidth,
  page: light(behind(document.body)), texts, contrast: worst[0], where: worst[1],
});
</script>
"""


def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs a Chromium to look at the report with")
        pytest.skip("no Chromium here to look at the report with")
    return found


def look(dossier: Dossier, folder: Path, *flags: str, width: int = 1280) -> dict[str, Any]:
    """Lay out the report of a sample and return what the probe measured."""
    html = render(dossier, "0.0.0")
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    page = folder / "page.html"
    page.write_text(html.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    command = [
        browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},720",
        *flags,
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    match = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr[-500:]
    found = json.loads(unescape(match[1]))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("outcome", ["improved", "simulated"])
def test_the_first_screen_fits_and_reads_in_the_dark(outcome: str, tmp_path: Path) -> None:
    found = look(samples.dossier(outcome), tmp_path, DARK)
    assert found["scope"] <= found["bottom"] <= 720
    assert found["width"] <= 1280
    assert found["page"] < 0.05, "the page is not dark"
    assert found["texts"] > 100
    assert found["contrast"] >= MIN_CONTRAST, found["where"]


def test_long_texts_do_not_push_the_scope_off_the_first_screen(tmp_path: Path) -> None:
    long = " and some more words than anybody would want to read on a first screen" * 4
    found = look(poisoned(samples.dossier("improved"), long), tmp_path)
    assert found["bottom"] <= 720
    assert found["width"] <= 1280
    assert found["contrast"] >= MIN_CONTRAST, found["where"]


def test_a_narrow_screen_scrolls_tables_and_not_the_page(tmp_path: Path) -> None:
    # 500 is the narrowest window that a headless browser lays out.
    assert look(samples.dossier("improved"), tmp_path, width=500)["width"] <= 500
