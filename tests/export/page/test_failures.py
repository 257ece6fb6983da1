"""What the speech page says when something fails."""

import numpy
import pytest
from speech_page import WAIT_MS, alert, any_server, give, noise, served, status, wav


def test_a_refused_microphone_is_told(page):
    page.context.grant_permissions([])  # all others are denied
    status(page, "Ready")
    page.get_by_role("button", name="Use the microphone").click()
    assert "microphone was not allowed" in alert(page)
    page.get_by_role("button", name="Try the example").click()  # still works, and the message goes
    status(page, "3 words")
    assert not page.get_by_role("alert").is_visible()


def test_a_missing_microphone_is_told(page):
    none = "navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotFoundError'); }"
    page.evaluate(f"() => {{ {none}; }}")
    status(page, "Ready")
    page.get_by_role("button", name="Use the microphone").click()
    assert alert(page) == "There is no microphone."


def test_falling_behind_the_microphone_is_told(browser, address, site):
    with browser.new_context(permissions=["microphone"]) as context:
        page, slow = context.new_page(), (site / "stream.js").read_text()
        slow = slow.replace(
            "async advance(samples, valid) {",
            "async advance(samples, valid) {\n await new Promise((done) => setTimeout(done, 400));",
        )
        context.route("**/stream.js", lambda route: route.fulfill(body=slow, content_type="text/javascript"))
        page.goto(address)
        status(page, "Ready")
        page.get_by_role("button", name="Use the microphone").click()
        status(page, "can't keep up")
        assert "can't keep up with the microphone" in alert(page)
        assert page.get_by_role("button", name="Use the microphone").is_enabled()


def test_a_page_that_is_no_secure_context_reads_files_but_has_no_microphone(browser, site):
    with served(site, any_server) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address.replace("127.0.0.1", "machine.test"))
        status(page, "Ready")
        assert page.get_by_text("not a secure context").is_visible()
        assert page.get_by_role("button", name="Use the microphone").is_disabled()
        page.get_by_role("button", name="Try the example").click()
        status(page, "3 words")


def test_a_file_without_sound_is_told(page):
    status(page, "Ready")
    for content, message in (
        (b"no sound at all", "can't be decoded"),
        (b"", "can't be decoded"),
        (wav(noise(0.2, 0))[:20], "can't be decoded"),
        (wav(numpy.zeros(0)), "holds no sound"),
        (wav(numpy.full(9000, numpy.nan), subtype="FLOAT"), "holds samples that are not finite"),
    ):
        give(page, f"{len(content)} bytes.wav", content)
        page.get_by_role("alert").filter(has_text=f"{len(content)} bytes.wav {message}").wait_for(timeout=WAIT_MS)


def test_a_recording_shorter_than_a_token_is_told(page):
    status(page, "Ready")
    give(page, "song.wav", wav(noise(0.02, 0)))
    status(page, "song.wav: too short for this model")


def test_an_altered_model_is_told(page):
    def altered(route):
        body = bytearray(route.fetch().body())
        body[len(body) // 2] ^= 1
        route.fulfill(body=bytes(body))

    page.context.route("**/*.onnx", altered)
    page.reload()
    assert "model.onnx does not match model.json" in alert(page)
    assert page.get_by_role("button", name="Use the microphone").is_disabled()


def test_a_missing_model_and_another_format_are_told(page):
    page.context.route("**/model.json", lambda route: route.fulfill(json={"format": 2}))
    page.reload()
    assert "has the format 2; this page reads format 1" in alert(page)
    for body, message in (
        ("[" * 10_000, "model.json can't be read"),
        ('{"labels": ["a\\nb"]}', "model.json is altered"),
    ):
        page.context.route("**/model.json", lambda route, _, body=body: route.fulfill(body=body))
        page.reload()
        assert message in alert(page)


@pytest.mark.parametrize("change, message", [
    ("delete globalThis.WebAssembly", "no WebAssembly"),
    ("WebAssembly.validate = () => false", "no WebAssembly SIMD"),
])  # fmt: skip
def test_a_browser_without_webassembly_is_told(browser, address, change, message):
    with browser.new_context() as context:
        context.add_init_script(change)
        page = context.new_page()
        page.goto(address)
        assert message in alert(page)
