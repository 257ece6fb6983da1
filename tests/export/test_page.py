"""The speech page of `vitspeech demo` in headless Chromium; skipped without it, or without onnxruntime-web."""

import base64
import io
import shutil
import threading
from dataclasses import asdict

import numpy
import pytest
import soundfile
import torch
from tiny import ROOT

import vitspeech
from vitspeech.decoding.ctc import GreedySearch
from vitspeech.decoding.keywords import KeywordDecoder
from vitspeech.decoding.spotting_settings import SpottingSettings
from vitspeech.export.demo import write_demo
from vitspeech.export.serving import server
from vitspeech.inference.spotting import WordSpotter
from vitspeech.plots.attention_maps import forward_with_attention
from vitspeech.samples import FOLDER as SAMPLES

SAMPLE = SAMPLES / "left-right-go.wav"
TRUNCATED, CTC, CLIPS = "speech-commands-truncated", "spoken-words-ctc", "speech-commands"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WAIT_MS = 60_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def folder(exported, runtime, tmp_path_factory):
    """The page of a spotter with attention, of a CTC model and of a classifier of clips."""
    target = tmp_path_factory.mktemp("page") / "site"
    named = tmp_path_factory.mktemp("exported")  # the page's names are those of the folders
    for name in (TRUNCATED, CTC, CLIPS):
        (named / name).symlink_to(exported(name, attention=name == TRUNCATED))
    write_demo([named / name for name in (TRUNCATED, CTC, CLIPS)], target, runtime, vitspeech.load)
    return target


@pytest.fixture(scope="module")
def address(folder):
    """The page, served on 127.0.0.1."""
    with server(folder, 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/"
        serving.shutdown()


@pytest.fixture(scope="module")
def browser():
    """One Chromium, whose microphone plays the sample recording once."""
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


@pytest.fixture(scope="module")
def modules(browser, address):
    """A window in which tests call functions of the page's modules."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address + "style.css")
        yield page


@pytest.fixture
def page(browser, address):
    """A new window on the page, which nothing but 127.0.0.1 may be asked from; no error may be logged."""
    context = browser.new_context()
    page, problems = context.new_page(), []
    page.on("request", lambda request: problems.append(request.url) if not is_own(request.url, address) else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(address)
    page.locator("body[data-ready]").wait_for(timeout=WAIT_MS)
    yield page
    context.close()
    assert problems == []


def is_own(url, address):
    return url.startswith((address, "blob:", "data:"))


def status(page, text):
    page.get_by_role("status").filter(has_text=text, visible=True).first.wait_for(timeout=WAIT_MS)


def alert(page):
    page.get_by_role("alert").wait_for(timeout=WAIT_MS)
    return page.get_by_role("alert").inner_text()


def give(page, name, content):
    page.locator("input[type=file]").first.set_input_files([{"name": name, "mimeType": "", "buffer": content}])


def heard(page):
    """The rows of the table of words, from the first word on."""
    rows = page.locator("tbody tr").all()
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in reversed(rows)]


def wav(samples, rate=16000, subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


def model(name):
    return vitspeech.load(ROOT / "checkpoints" / name)


def noise(seconds, seed):
    return 0.1 * numpy.random.default_rng(seed).standard_normal(round(16000 * seconds))


RUN = """async ([folder, content, choose]) => {
  const { open } = await import("./runtime.js"), { readSound } = await import("./sound.js");
  const { Hearing } = await import("./hearing.js");
  const model = await open(folder), bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  const samples = await readSound(new File([bytes], "a.wav"), model.metadata.sample_rate_hz);
  const hearing = new Hearing(model, () => {}), rows = [], take = hearing.take.bind(hearing);
  hearing.take = (results) => { rows.push(...results.flatMap((result) => result.rows)); take(results); };
  for (let first = 0, count = 1; first < samples.length; first += count, count = (count * 7 + 13) % 5000) {
    await hearing.push(samples.slice(first, first + count));
  }
  await hearing.end();
  const weights = choose.map((chosen) => hearing.weights(...chosen).map((bar) => [bar.start_s, bar.weight]));
  return { rows: rows.map((row) => [...row]), words: hearing.words, weights };
}"""


def run(page, name, content, choose=()):
    """Rows of logits, words, and the chosen attention weights of a recording that is pushed in uneven parts."""
    return page.evaluate(RUN, [f"models/{name}", base64.b64encode(content).decode(), [*choose]])


def whole(name, content):
    """The logits of a recording in torch: (T, C)."""
    stream = vitspeech.stream(model(name))
    samples = torch.from_numpy(soundfile.read(io.BytesIO(content), dtype="float32")[0])
    return torch.cat((stream.push(samples), stream.flush())).numpy()


RECORDINGS = {
    "words": (TRUNCATED, SAMPLE.read_bytes()),
    "noise": (TRUNCATED, wav(noise(1.234, 0))),
    "floats": (CTC, wav(noise(2.1, 1), subtype="FLOAT")),
    "24 bits": (CTC, wav(noise(0.4, 2), subtype="PCM_24")),
    "shorter than a token": (TRUNCATED, wav(noise(0.05, 3))),
}


@pytest.mark.parametrize("kind", RECORDINGS)
def test_logits_of_a_recording_equal_those_of_torch(modules, kind):
    expected, computed = whole(*RECORDINGS[kind]), run(modules, *RECORDINGS[kind])["rows"]
    assert len(computed) == len(expected)
    if len(expected):
        numpy.testing.assert_allclose(computed, expected, rtol=0, atol=1e-3)


def test_attention_is_that_of_the_token_looked_at(modules):
    choose = [(row, block, head) for row in (0, 1, 9, 40, 93) for block in (0, 3, 5) for head in (0, 3)]
    network, samples = model(TRUNCATED).network, soundfile.read(SAMPLE, dtype="float32")[0]
    weights = forward_with_attention(network, torch.from_numpy(samples)[None]).weights[:, 0]
    computed = run(modules, TRUNCATED, SAMPLE.read_bytes(), choose)["weights"]
    for (row, block, head), bars in zip(choose, computed, strict=True):
        first, after = max(row - 8, 0), min(row + 3, weights.shape[-1])
        expected = weights[block, head, row, first:after].tolist()
        expected += [0.0] * (row + 3 - after)  # tokens after the recording
        assert [weight for _, weight in bars] == pytest.approx(expected, abs=1e-4), (row, block, head)
        assert [start for start, _ in bars] == pytest.approx([0.0225 + 0.04 * key for key in range(first, row + 3)])


def spotter_rows(seed, count=300):
    """Logits that hold words of all lengths, pauses and doubtful tokens: (T, 5)."""
    numbers = numpy.random.default_rng(seed)
    rows = numbers.standard_normal((count, 5)) * 1.5
    at = 0
    while at < count:
        length = int(numbers.integers(1, 30))
        rows[at : at + length, numbers.integers(5)] += numbers.uniform(0, 8)
        at += length
    return rows.astype(numpy.float32)


def spotter_settings(seed):
    numbers = numpy.random.default_rng(1000 + seed)
    names = {"refractory_s": 0.5, "smoothing_s": 0.3, "token_probability": 0.9, "pause_s": 0.3, "shortest_s": 0.3,
             "used_probability": 1, "least_fraction": 1}  # fmt: skip
    drawn = {name: float(numbers.uniform(0, most)) for name, most in names.items()}
    if seed % 3 == 0:
        drawn |= {"smoothing_s": 0.1, "pause_s": 0.14, "refractory_s": 0.0}  # 2.5 and 3.5 tokens
    thresholds = {word: float(numbers.uniform(0, 0.7)) for word in ("left", "right", "go")}
    return SpottingSettings(thresholds=thresholds if seed % 2 else 0.3, **drawn)


def test_words_equal_those_of_the_keyword_decoder(modules):
    labels, times = ["left", "right", "unknown", "go", "silence"], {"hop_s": 0.04, "first_s": 0.0225, "delay_s": 0.565}
    cases, found = [(spotter_rows(seed), spotter_settings(seed), 5 + seed) for seed in range(40)], 0
    computed = modules.evaluate(
        """async ([labels, times, cases]) => {
          const { KeywordDecoder } = await import("./decoding.js");
          return cases.map(([rows, settings, clip_tokens]) => {
            const decoder = new KeywordDecoder(labels, settings, { ...times, clip_tokens });
            return [...rows.flatMap((row) => decoder.push(row)), ...decoder.flush()];
          });
        }""",
        [labels, times, [(rows.tolist(), asdict(settings), clip) for rows, settings, clip in cases]],
    )
    for seed, ((rows, settings, clip), words) in enumerate(zip(cases, computed, strict=True)):
        decoder, parts = KeywordDecoder(labels, settings, **times, clip_tokens=clip), numpy.random.default_rng(seed)
        cuts = numpy.sort(parts.integers(len(rows), size=12))
        expected = [found for part in numpy.split(rows, cuts) for found in decoder.push(part)] + decoder.flush()
        assert [word["label"] for word in words] == [detection.label for detection in expected], seed
        for word, detection in zip(words, expected, strict=True):
            assert {**word, "label": 0} == pytest.approx({**asdict(detection), "label": 0}, rel=0, abs=1e-9), seed
        found += len(words)
    assert found > 200


def test_units_equal_those_of_greedy_search(modules):
    rows = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    search = GreedySearch()
    search.push(rows.log_softmax(-1))
    best = search.best()
    words = modules.evaluate(
        """async ([labels, rows]) => {
          const { CtcDecoder } = await import("./decoding.js");
          const decoder = new CtcDecoder(labels, { hop_s: 1, first_s: 0.5 });
          return [...rows.flatMap((row) => decoder.push(row)), ...decoder.flush()];
        }""",
        [list("abc"), rows.tolist()],
    )
    assert len(words) > 100
    assert [word["label"] for word in words] == ["abc"[unit] for unit in best.units]
    assert [(word["start_s"] - 0.5, word["end_s"] - 0.5) for word in words] == [*map(tuple, best.spans)]


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_sound_of_another_rate_is_resampled_without_aliases(modules, rate):
    def tone(at_hz, hz):
        return 0.5 * numpy.sin(2 * numpy.pi * hz * numpy.arange(at_hz // 4) / at_hz)

    def resampled(samples):
        return modules.evaluate(
            """async ([samples, rate]) => {
              const { Resampler } = await import("./resample.js"), resampler = new Resampler(rate, 16000), parts = [];
              for (let first = 0, count = 1; first < samples.length; first += count, count = (count * 5 + 3) % 997) {
                parts.push(...resampler.push(Float32Array.from(samples.slice(first, first + count))));
              }
              const whole = new Resampler(rate, 16000).whole(Float32Array.from(samples));
              return [parts, [...whole]];
            }""",
            [samples.tolist(), rate],
        )

    for hz in (100, 1000, 3000, *([6500] if rate > 20000 else [])):
        parts, computed = resampled(tone(rate, hz))
        assert computed[: len(parts)] == parts and len(computed) == 4000
        numpy.testing.assert_allclose(computed[500:-500], tone(16000, hz)[500:-500], rtol=0, atol=1e-3)
    if rate > 20000:
        for hz in (8200, 9000, 10500):
            assert numpy.abs(resampled(tone(rate, hz))[1][500:-500]).max() < 1e-3


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


def test_falling_behind_the_microphone_is_told(browser, address, folder):
    with browser.new_context(permissions=["microphone"]) as context:
        page, slow = context.new_page(), (folder / "stream.js").read_text()
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


def test_a_page_that_is_no_secure_context_reads_files_but_has_no_microphone(browser, address):
    with browser.new_context() as context:
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
