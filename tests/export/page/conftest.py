"""The speech page of `vitspeech demo` in headless Chromium; skipped without it, or without onnxruntime-web."""

import shutil

import pytest
from filelock import FileLock
from speech_page import CLIPS, CTC, LABELER, RANDOM, SAMPLE, SHORTEST_MS, TRUNCATED, model, opened, served

import vitspeech
from vitspeech.export import export
from vitspeech.export.demo import write_demo

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="package")
def site(browser, exported, runtime, shared):
    """The page of a spotter with attention, of a CTC model, of a classifier of clips, and of tiny random models."""
    named, target = shared / "named", shared / "site"  # the page's names are those of the folders
    with FileLock(shared / "site.lock"):
        if not target.is_dir():
            named.mkdir()
            for name in (TRUNCATED, CTC, CLIPS):
                (named / name).symlink_to(exported(name))
            with pytest.MonkeyPatch.context() as patch:  # the labels of the random labeler change every few frames
                patch.setattr("vitspeech.export.speech.SHORTEST_WORD_S", SHORTEST_MS / 1000)
                for name in RANDOM:
                    export(model(name), named / name, attention=name == LABELER)
            write_demo([named / name for name in (TRUNCATED, CTC, CLIPS, *RANDOM)], target, runtime, vitspeech.load)
    return target


@pytest.fixture(scope="package")
def address(site):
    """The page, served on 127.0.0.1."""
    with served(site) as address:
        yield address


@pytest.fixture(scope="package")
def browser():
    """One Chromium, whose microphone plays the sample recording once."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
    arguments = [
        "--no-sandbox",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={SAMPLE}%noloop",
        "--host-resolver-rules=MAP machine.test 127.0.0.1",
    ]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="package")
def modules(browser, address):
    """A window in which tests call functions of the page's modules."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address + "style.css")
        yield page


@pytest.fixture
def page(browser, address):
    """A new window on the page, which nothing but 127.0.0.1 may be asked from; no error may be logged."""
    with opened(browser, address) as page:
        yield page
