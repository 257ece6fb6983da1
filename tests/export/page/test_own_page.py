"""The page of the guide to a web page of one's own, as it stands there and in another folder, in Chromium."""

import re

import pytest
from speech_page import TRUNCATED, WAIT_MS
from tiny import ROOT


@pytest.mark.parametrize("folder, modules", [("", "./"), ("own/", "../")])
def test_the_page_of_the_guide_hears_words(browser, address, folder, modules):
    text = (ROOT / "docs/guides/web-page.md").read_text()
    own = re.search(r"```html\n(.*?)```", text, re.DOTALL)[1].replace("keywords-12", TRUNCATED)
    own = own.replace('from "./', f'from "{modules}').replace("models/", f"{modules}models/")
    with browser.new_context(permissions=["microphone"]) as context:
        page, errors = context.new_page(), []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.route("**/mine.html", lambda route: route.fulfill(body=own, content_type="text/html"))
        page.goto(f"{address}{folder}mine.html")
        page.get_by_role("button", name="Listen").click(timeout=WAIT_MS)
        page.get_by_role("listitem").first.wait_for(timeout=WAIT_MS)
        assert page.get_by_role("listitem").first.inner_text() in ("left", "right", "go")
    assert errors == []
