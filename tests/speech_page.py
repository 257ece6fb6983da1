"""What tests do with the speech page: feed it, read it, and compute the same in torch."""

import base64
import io
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy
import soundfile
import torch
from tiny import ROOT

import vitspeech
from vitspeech import RecurrentEncoder, SpeechClassifier, SpeechFrontend, SpeechLabeler, SpeechRecognizer, WindowMLP
from vitspeech.checkpoint.model import Model
from vitspeech.export.demo import server
from vitspeech.samples import FOLDER as SAMPLES

SAMPLE = SAMPLES / "left-right-go.wav"
TRUNCATED, CTC, CLIPS = "speech-commands-truncated", "spoken-words-ctc", "speech-commands"
WAIT_MS = 60_000
LABELER, GRU, WINDOW = "random-labeler", "random-gru", "random-window"
SHORTEST_MS = 20.0  # of the words of the random labeler on the page: two frames
RANDOM = {
    LABELER: lambda: SpeechLabeler(5, tokens(stride=3), {"depth": 2, "heads": 2, "left": [3, 5], "right": [1, 2]}),
    GRU: lambda: SpeechClassifier(4, tokens(), RecurrentEncoder(12, 2, cell="gru", bidirectional=False, hidden=7)),
    WINDOW: lambda: SpeechRecognizer(4, tokens(), WindowMLP(12, 3, 2, hidden=9)),
}


def tokens(stride=4):
    return SpeechFrontend(12, mels=10, stride=stride)


def model(name):
    """A released model, or one of the tiny random ones, which are the same each time."""
    if name not in RANDOM:
        return vitspeech.load(ROOT / "checkpoints" / name)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(
            4 if name == LABELER else 1
        )  # the labeler has words of all labels, and runs that are too short
        network = RANDOM[name]().eval()
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        network.head.weight.mul_(10)  # so that classes change
    kind = {"units": "words"} if isinstance(network, SpeechRecognizer) else {"seconds": 1.0}
    labels = ["one", "two", "unknown", "silence"]  # the labeler and the recognizer have one class more
    return Model(network, labels, {"sample_rate_hz": 16_000} | kind, {"name": name}, {})


@contextmanager
def served(folder, make=server):
    """The address of a folder on 127.0.0.1."""
    with make(folder, 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{serving.server_port}/"
        finally:
            serving.shutdown()


@contextmanager
def opened(browser, address, **settings):
    """A new window on a page, which nothing but its address may be asked from; no error may be logged."""
    problems = []
    with browser.new_context(**settings) as context:
        page = context.new_page()
        page.on("request", lambda request: problems.append(request.url) if not is_own(request.url, address) else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(address)
        page.locator("body[data-ready]").wait_for(timeout=WAIT_MS)
        yield page
    assert problems == []


def is_own(url, address):
    return url.startswith((address, "blob:", "data:"))


def any_server(folder, port):
    """A server that knows nothing of this page, and answers under any name."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(SimpleHTTPRequestHandler, directory=str(folder)))


def status(page, text):
    page.get_by_role("status").filter(has_text=text, visible=True).first.wait_for(timeout=WAIT_MS)


def alert(page):
    page.get_by_role("alert").wait_for(timeout=WAIT_MS)
    return page.get_by_role("alert").inner_text()


def give(page, name, content):
    page.locator("input[type=file]").first.set_input_files([{"name": name, "mimeType": "", "buffer": content}])


def heard(page):
    """The rows of the table of words, from the first word on."""
    rows = "[...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    return page.evaluate(rows)[::-1]


def wav(samples, rate=16000, subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


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
