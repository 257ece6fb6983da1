"""A transcript while it is being said is in the end that of the whole recording, and a word that was given stays."""

import pytest
import torch
from arguments import nested
from hypothesis import given, settings
from hypothesis import strategies as draw

import vitspeech
from vitspeech.checkpoint.folder import Model
from vitspeech.frontends import SpeechTokens
from vitspeech.inference.transcribe import Search, transcribed
from vitspeech.models import SpeechClassifier, SpeechLabeler, SpeechRecognizer, SpeechTranscriber

LABELS = ["go", "stop", "left", "up", "no"]


def model(kind=SpeechRecognizer, dtype=torch.float64, labels=LABELS, **arguments) -> Model:
    """A recognizer with short tokens, so that little sound says much."""
    torch.manual_seed(0)
    tokens = SpeechTokens(12, mels=17, stem="stacked", stride=arguments.pop("stride", 3))
    options = {"left": 5, "right": 2, "depth": 2, "heads": 3} | arguments
    network = kind(len(labels), tokens, **nested(**options)).to(dtype).eval()
    network.initialize(0.1 * torch.randn(3, 16_000, dtype=dtype))
    network.head.weight.data *= 6
    return Model(network, labels, {"sample_rate_hz": 16_000}, {}, {})


def noise(samples, seed=0):
    return 0.1 * torch.randn(samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pushes(waveform, sizes):
    """The waveform in parts of the sizes, over and over."""
    place, number = 0, 0
    while place < len(waveform):
        size = sizes[number % len(sizes)]
        yield waveform[place : place + size]
        place, number = place + size, number + 1


def whole(heard, waveform, search):
    return transcribed(heard.network, heard.labels, waveform[None], torch.tensor([len(waveform)]), search)[0]


def same(one, other):
    assert one.text == other.text and one.units == other.units
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(
    samples=draw.integers(880, 9000),
    sizes=draw.lists(draw.integers(100, 6000), min_size=1, max_size=4),
    beam=draw.sampled_from([1, 3]),
    right=draw.integers(0, 9),
    depth=draw.integers(1, 2),
    stride=draw.integers(1, 4),
    seed=draw.integers(0, 9),
)
def test_however_sound_is_cut_its_transcript_is_that_of_the_whole(samples, sizes, beam, seed, **arguments):
    heard, waveform, search = model(**arguments), noise(samples, seed), Search(beam)
    stream = vitspeech.TranscriptStream(heard, search=search)
    for part in pushes(waveform, sizes):
        stream.push(part)
    same(stream.flush(), whole(heard, waveform, search))


@pytest.mark.parametrize("search", [Search(1), Search(3)], ids=["greedy", "beam"])
def test_sample_by_sample_too(search):
    heard, waveform = model(), noise(2000)
    stream = vitspeech.TranscriptStream(heard, search=search)
    for sample in waveform.split(1):
        stream.push(sample)
    same(stream.flush(), whole(heard, waveform, search))


@settings(deadline=None, max_examples=15)
@given(
    samples=draw.integers(1, 9000),
    sizes=draw.lists(draw.integers(100, 4000), min_size=1, max_size=4),
    right=draw.integers(0, 9),
    seed=draw.integers(0, 9),
)
def test_words_come_once_each_in_order_and_are_those_of_the_end(samples, sizes, right, seed):
    heard, waveform = model(right=right), noise(samples, seed)
    words = list(vitspeech.TranscriptStream(heard, search=Search(1)).words(pushes(waveform, sizes)))
    if samples < heard.network.tokens.window_samples:
        assert words == []
        return
    assert tuple(words) == whole(heard, waveform, Search(1)).units


def test_there_is_something_to_say():
    found = {whole(model(), noise(16_000, seed), Search(1)).text for seed in range(3)}
    assert len(found) == 3 and all(len(set(text.split())) > 1 and len(text.split()) > 5 for text in found)


def test_what_greedy_search_has_said_stays_said():
    heard, waveform = model(), noise(16_000)
    stream, before = vitspeech.TranscriptStream(heard, search=Search(1)), ""
    for part in waveform.split(700):
        now = stream.push(part).text
        assert now.startswith(before)
        before = now
    assert stream.flush().text.startswith(before) and before


def test_a_word_comes_with_the_token_after_its_last_and_not_before():
    heard, waveform = model(depth=1, right=2), noise(16_000)
    hop, window = heard.network.tokens.hop_samples, heard.network.tokens.window_samples
    rows = heard.network(waveform[None])[0][0].argmax(-1).tolist()
    path = [*rows, None]
    ends = [token for token in range(len(rows)) if rows[token] < len(LABELS) and path[token + 1] != rows[token]]
    fed, seen = 0, []

    def fed_by_sample():
        nonlocal fed
        for sample in waveform.split(80):
            fed += len(sample)
            yield sample

    for _ in vitspeech.TranscriptStream(heard, search=Search(1)).words(fed_by_sample()):
        seen.append(fed)
    # Token t + 1 is final once token t + 3 is there: its samples end at (t + 3) · hop + window.
    expected = [min(-((-(end + 3) * hop - window) // 80) * 80, 16_000) for end in ends]
    assert seen == expected and len(seen) > 5


@pytest.mark.parametrize("search", [Search(1), Search(3)], ids=["greedy", "beam"])
def test_a_flushed_stream_begins_anew(search):
    heard, stream = model(), vitspeech.TranscriptStream(model(), search=search)
    for seed in range(2):
        stream.push(noise(9000, seed))
        same(stream.flush(), whole(heard, noise(9000, seed), search))
    assert stream.flush().text == "" and stream.flush().units == ()


def test_a_stream_of_words_can_be_begun_again():
    stream = vitspeech.TranscriptStream(model(), search=Search(1))
    first = list(stream.words(noise(9000).split(500)))
    assert first and list(stream.words(noise(9000).split(1234))) == first
    assert list(stream.words([])) == []


def test_without_a_search_it_is_a_beams():
    stream, heard = vitspeech.TranscriptStream(model()), model()
    stream.push(noise(9000))
    same(stream.flush(), whole(heard, noise(9000), Search()))


def test_a_beams_words_are_refused_since_they_are_not_final():
    with pytest.raises(ValueError, match=r"final at the end alone; use Search\(beam=1\)"):
        next(vitspeech.TranscriptStream(model()).words([noise(9000)]))


def test_integers_and_arrays_are_heard_as_floats_are():
    waveform = (3000 * noise(9000) / 0.1).to(torch.int16)
    stream, found = vitspeech.TranscriptStream(model(), search=Search(1)), []
    for part in (waveform, waveform.numpy(), waveform.double() / 32768):
        stream.push(part)
        found.append(stream.flush())
    assert found[0].text and found[0] == found[1] == found[2]


def test_characters_come_one_by_one_with_the_spaces_between_words():
    heard = model(labels=[" ", "'", "a", "b", "c"])
    stream, waveform = vitspeech.TranscriptStream(heard, search=Search(1)), noise(16_000)
    spelled = "".join(said.label for said in stream.words(waveform.split(999)))
    assert " ".join(spelled.split()) == whole(heard, waveform, Search(1)).text and " " in spelled.strip()


@pytest.mark.parametrize(
    ("heard", "reason"),
    [
        (lambda: model(right=None), "unlimited"),
        (lambda: model(SpeechTranscriber), "SpeechTranscriber gives no transcript as it listens"),
        (lambda: model(SpeechTranscriber, ctc=True), "a SpeechRecognizer .CTC. does"),
        (lambda: model(SpeechClassifier), "SpeechClassifier gives no transcript"),
        (lambda: model(SpeechLabeler), "SpeechLabeler gives no transcript"),
    ],
)
def test_what_can_not_be_streamed_is_refused_with_the_reason(heard, reason):
    with pytest.raises(ValueError, match=reason):
        vitspeech.TranscriptStream(heard())
