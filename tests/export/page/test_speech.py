"""What the speech page hears and shows, and how it is used."""

import re
import shutil

import pytest
import soundfile
import torch
from speech_page import (
    CLIPS,
    CTC,
    GRU,
    LABELER,
    SAMPLE,
    TRUNCATED,
    WAIT_MS,
    give,
    heard,
    model,
    opened,
    served,
    status,
    wav,
)

import vitspeech
from vitspeech.export.demo import write_demo
from vitspeech.inference.spotting import WordSpotter


def test_words_of_a_file_are_those_of_the_spotter(page):
    status(page, "Ready")
    page.get_by_role("button", name="Try the example").click()
    status(page, "left-right-go.wav: 3 words in 3.9 s")
    samples = soundfile.read(SAMPLE, dtype="float32")[0]
    expected = [
        [word.label, f"{word.start_s:.2f} s", f"{word.end_s:.2f} s", f"{word.probability:.2f}"]
        for word in WordSpotter(model(TRUNCATED)).words([samples])
    ]
    assert heard(page) == expected


def test_what_was_heard_stands_below_the_controls_where_before_stood_what_can_be_said(page):
    status(page, "Ready")
    said, delay = page.locator(".said"), page.locator(".numbers dd").last
    assert said.inner_text().startswith("It knows: ") and "right" in said.inner_text()
    before = delay.inner_text()
    page.get_by_role("button", name="Try the example").click()
    status(page, "left-right-go.wav: 3 words")
    assert said.inner_text().split() == ["left", "right", "go"] and delay.inner_text() == before
    page.set_viewport_size({"width": 400, "height": 800})
    assert said.bounding_box()["y"] < page.locator("canvas").first.bounding_box()["y"]
    assert "left at" in page.locator("canvas").first.get_attribute("aria-label")


def test_the_example_is_offered_to_models_that_know_one_of_its_words_or_transcribe(page):
    for name, known in ((TRUNCATED, True), (GRU, False), (CTC, True)):
        page.get_by_role("combobox", name="Model").select_option(label=name)
        status(page, "Ready")
        assert page.get_by_role("button", name="Try the example").is_visible() == known


def test_the_time_under_the_thumb_of_the_slider_is_that_of_the_drawing_above(page):
    status(page, "Ready")
    page.get_by_role("button", name="Try the example").click()
    status(page, "left-right-go.wav: 3 words")
    slider, drawing = page.get_by_role("slider"), page.locator("canvas").first
    page.set_viewport_size({"width": 400, "height": 800})
    for seconds in (0.5, 3.8):
        slider.fill(str(seconds))
        page.locator(f"text=At {seconds:.2f} s").wait_for(timeout=WAIT_MS)
        box, above, thumb = slider.bounding_box(), drawing.bounding_box(), 16
        place = box["x"] + thumb / 2 + (box["width"] - thumb) * seconds / float(slider.get_attribute("max"))
        drawing.click(position={"x": place - above["x"], "y": 50})
        page.wait_for_function(f"Math.abs(document.querySelector('input.time').value - {seconds}) < 0.03")


def test_a_wav_file_that_is_cut_short_is_named_and_heard(page):
    status(page, "Ready")
    give(page, "cut.wav", SAMPLE.read_bytes()[:60_000])
    status(page, "in 1.9 s")
    assert page.get_by_role("alert").inner_text() == "cut.wav is cut short: its last 2.0 s are missing."


def test_units_of_a_transcribing_model_are_those_of_its_stream(page):
    page.get_by_role("combobox", name="Model").select_option(label=CTC)
    status(page, "Ready")
    give(page, "sample.wav", SAMPLE.read_bytes())
    status(page, "sample.wav: 3 words")
    stream = vitspeech.TranscriptStream(model(CTC), search=vitspeech.Search(beam=1))
    expected = [
        (word.label, word.start_s, word.end_s)
        for word in stream.words([torch.from_numpy(soundfile.read(SAMPLE, dtype="float32")[0])])
    ]
    assert [row[:3] for row in heard(page)] == [
        [label, f"{start:.2f} s", f"{end:.2f} s"] for label, start, end in expected
    ]


def test_a_classifier_of_clips_labels_a_file(page):
    page.get_by_role("combobox", name="Model").select_option(label=CLIPS)
    status(page, "Ready")
    samples = soundfile.read(SAMPLE, dtype="float32")[0]
    give(page, "left.wav", wav(samples[3000:19000], subtype="FLOAT"))
    status(page, "left.wav: 1 word")
    assert heard(page)[0][0] == "left"


def test_a_model_may_have_any_name(browser, site, runtime, tmp_path):
    named = shutil.copytree(site.parent / "named" / GRU, tmp_path / "50 % größer #2?&<b>名")
    write_demo([named], tmp_path / "page", runtime, vitspeech.load)
    with served(tmp_path / "page") as address, opened(browser, address) as page:
        assert page.get_by_role("combobox", name="Model").inner_text() == "50-größer-2-b-名"
        give(page, "50 % größer #2?.wav", SAMPLE.read_bytes())
        status(page, "50 % größer #2?.wav: 2 words in 3.9 s")


def test_time_is_moved_by_keyboard(page):
    status(page, "Ready")
    page.get_by_role("button", name="Try the example").click()
    status(page, "3 words")
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    page.locator("text=At 0.00 s").wait_for(timeout=WAIT_MS)
    before = page.locator(".bars").inner_text()
    slider.fill("3.08")
    page.locator("text=At 3.08 s").wait_for(timeout=WAIT_MS)
    assert page.locator(".bars .best").inner_text() == "go" and page.locator(".bars").inner_text() != before
    page.get_by_label("Head").select_option(label="2")
    page.locator("text=gives most weight").wait_for(timeout=WAIT_MS)


def test_every_control_has_a_name_and_the_keyboard_reaches_it(page):
    status(page, "Ready")
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.labels?.[0]?.innerText.trim() || document.activeElement.innerText")
        )
    assert all(
        any(name in text for text in reached) for name in ("Model", "Use the microphone", "Open a recording", "Try")
    )
    unnamed = page.evaluate("""[...document.querySelectorAll("button, select, input, canvas, audio")].filter(
      (element) => !(element.labels?.length || element.innerText || element.getAttribute("aria-label"))).length""")
    assert unnamed == 0


def test_nothing_is_wider_than_the_window(page):
    status(page, "Ready")
    page.get_by_role("button", name="Try the example").click()
    status(page, "3 words")
    for width in (400, 800, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_words_have_a_line_each_in_a_region_that_the_keyboard_scrolls(page):
    expect = pytest.importorskip("playwright.sync_api").expect
    for name, headings in ((TRUNCATED, 4), (LABELER, 3)):
        page.get_by_role("combobox", name="Model").select_option(label=name)
        status(page, "Ready")
        for width in (400, 900):  # from 900 on, the words stand beside the drawings
            page.set_viewport_size({"width": width, "height": 800})
            give(page, f"{width}.wav", SAMPLE.read_bytes())
            page.get_by_role("status").filter(has_text=re.compile(f"^{width}.wav: .* in 3.9 s")).wait_for()
            heights, shown = (
                page.evaluate("""[[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight),
              [...document.querySelectorAll("th")].map((heading) => heading.offsetWidth > 0)]""")
            )
            assert max(heights) < 40 and shown == [True] * headings
    region = page.get_by_role("region", name="Words heard")
    assert region.bounding_box()["height"] < 400
    region.focus()
    page.keyboard.press("End")
    expect(page.locator("tbody tr").last).to_be_in_viewport()


def test_the_microphone_hears_words_until_it_is_stopped(browser, page):
    page.context.grant_permissions(["microphone"])
    status(page, "Ready")
    page.get_by_role("button", name="Use the microphone").click()
    status(page, "Listening")
    page.locator("tbody tr", has_text="right").wait_for(timeout=WAIT_MS)
    assert float(page.locator(".numbers dd").first.inner_text()) > 0
    page.get_by_role("button", name="Stop").click()
    status(page, "Microphone: ")
    assert {row[0] for row in heard(page)} & {"left", "right"}
    assert (
        page.get_by_role("button", name="Use the microphone").is_visible()
        and not page.get_by_role("alert").is_visible()
    )
