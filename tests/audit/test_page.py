"""The page of an audit in a real browser (`make test-page`): no error, no request, values under the pointer."""

import os
import shutil

import pytest

import lowregret as lr
from lowregret.audit.page import page

from ..audit_logs import SHOP, table_of, written

pytestmark = pytest.mark.page
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "</script><script>alert(1)</script>"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(tmp_path, width):
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    names = {"calm": 200, EVIL: 200, "<img src=x onerror=alert(2)>": 200, "other": 200}
    found = lr.audit.audit_log(written(table_of(names, broken=2), tmp_path / "log.parquet"), SHOP)
    file = tmp_path / "audit.html"
    file.write_text(page(found), encoding="utf-8")
    said, asked = [], []
    with playwright.sync_playwright() as p:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = p.chromium.launch(executable_path=CHROMIUM, args=flags)
        tab = browser.new_page(viewport={"width": width, "height": 844})
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("#money .scatterlayer path")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.locator("#money").scroll_into_view_if_needed()
        box = tab.locator("#money .nsewdrag").bounding_box()
        tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tab.wait_for_selector("#money .hoverlayer .legend text")
        hovered = tab.locator("#money .hoverlayer").text_content()
        step = int("".join(sign for sign in hovered.split("model")[0] if sign.isdecimal()))
        grid, curves = found.curves()
        for name, line in curves.items():
            assert f"{name} : {line[grid.tolist().index(step)]:,.6g}"[:10] in hovered
        tab.locator("#beside").check()
        tab.locator("#which").select_option(label=EVIL)
        assert EVIL in tab.locator("#evidence .gtitle").text_content()
        assert EVIL in tab.locator("#body").text_content()
        browser.close()
    assert said == []
    assert asked == [file.as_uri()]
