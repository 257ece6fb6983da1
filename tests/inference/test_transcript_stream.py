"""Transcripts of streams equal those of the full recordings, and words that were returned do not change."""

import copy
import pickle

import pytest
import torch
from arguments import nested
from hypothesis import given, settings
from hypothesis import strategies as draw

import vitspeech
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.language.kneser_ney import estimate
from vitspeech.decoding.search import Search
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.decode import transcribe_batch
from vitspeech.models import SpeechRecognizer

LABELS = ["go", "stop", "left", "up", "no"]
LANGUAGE_MODEL = estimate([[0, 1, 2], [4, 3, 2, 0], [1, 1]], LABELS, 3)


def model(kind=SpeechRecognizer, dtype=torch.float64, labels=LABELS, **arguments) -> Model:
    """A recognizer with short tokens, so that short recordings have many units."""
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stem="stacked", stride=arguments.pop("stride", 3))
    options = {"left": 5, "right": 2, "depth": 2, "heads": 3} | arguments
    network = kind(len(labels), tokens, **nested(**options)).to(dtype).eval()
    network.initialize(0.1 * torch.randn(3, 16_000, dtype=dtype))
    network.head.weight.data *= 6
    return Model(network, labels, {"sample_rate_hz": 16_000}, {}, {})


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def noise(samples, seed=0):
    return 0.1 * torch.randn(samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pushes(waveform, sizes):
    """Split the waveform into parts of the given sizes, repeated."""
    start, number = 0, 0
    while start < len(waveform):
        size = sizes[number % len(sizes)]
        yield waveform[start : start + size]
        start, number = start + size, number + 1


def full_transcript(released, waveform, search):
    return transcribe_batch(released.network, released.labels, waveform[None], torch.tensor([len(waveform)]), search)[0]


def assert_same(one, other):
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
def test_the_transcript_does_not_depend_on_the_pushes(samples, sizes, beam, seed, **arguments):
    released, waveform, search = model(**arguments), noise(samples, seed), Search(beam)
    stream = vitspeech.TranscriptStream(released, search=search)
    for part in pushes(waveform, sizes):
        stream.push(part)
    assert_same(stream.flush(), full_transcript(released, waveform, search))


def test_a_word_is_yielded_with_the_token_after_its_last():
    released, waveform = model(depth=1, right=2), noise(16_000)
    hop, window = released.network.tokens.hop_samples, released.network.tokens.window_samples
    rows = released.network(waveform[None])[0][0].argmax(-1).tolist()
    path = [*rows, None]
    ends = [token for token in range(len(rows)) if rows[token] < len(LABELS) and path[token + 1] != rows[token]]
    pushed, delivered = 0, []

    def parts():
        nonlocal pushed
        for part in waveform.split(80):
            pushed += len(part)
            yield part

    for _ in vitspeech.TranscriptStream(released, search=Search(1)).words(parts()):
        delivered.append(pushed)
    # Token t + 1 is final once token t + 3 is complete: its samples end at (t + 3) · hop + window.
    expected = [min(-((-(end + 3) * hop - window) // 80) * 80, 16_000) for end in ends]
    assert delivered == expected and len(delivered) > 5


@settings(deadline=None, max_examples=25)
@given(
    samples=draw.integers(1, 9000),
    sizes=draw.lists(draw.integers(100, 4000), min_size=1, max_size=4),
    beam=draw.sampled_from([1, 3]),
    seed=draw.integers(0, 9),
)
def test_what_a_push_kept_and_changed_makes_the_transcript(samples, sizes, beam, seed):
    released, waveform = model(), noise(samples, seed)
    stream, units, pushed = vitspeech.TranscriptStream(released, search=Search(beam)), (), []
    for part in pushes(waveform, sizes):
        found = stream.push(part)
        assert found.kept <= len(units)
        units = (*units[: found.kept], *found.changed)
        best = stream.search.best()
        assert [unit.label for unit in units] == [LABELS[unit] for unit in best.units]
        pushed.append((found, units, best))
    stream.flush()
    for found, units, best in pushed:  # read after all pushes, and after the flush
        assert found.units == units and found.text == " ".join(unit.label for unit in units)
        assert found.indices == best.units and found.log_probability == best.log_probability


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize("search", [Search(1), Search(2)], ids=["greedy", "beam"])
def test_a_copied_stream_continues_like_the_original(search, copied):
    rows = torch.full((2_000, 6), 0.02)
    rows[torch.arange(2_000), torch.arange(2_000) % 5] = 0.9  # a word a token
    stream = vitspeech.TranscriptStream(model(), search=search)
    stream.search.push(rows.log())
    found = stream.push(noise(3000))
    other, copied_found = copied(stream), copied(found)
    assert copied_found == found and len(found.units) >= 2_000
    assert (copied_found.kept, copied_found.changed) == (found.kept, found.changed)
    one, two = stream.push(noise(3000, 1)), other.push(noise(3000, 1))
    assert (one, one.kept, one.changed) == (two, two.kept, two.changed)
    assert stream.flush() == other.flush()


@pytest.mark.parametrize("search", [Search(1), Search(3)], ids=["greedy", "beam"])
def test_a_flushed_stream_can_be_used_again(search):
    released, stream = model(), vitspeech.TranscriptStream(model(), search=search)
    for seed in range(2):
        stream.push(noise(9000, seed))
        assert_same(stream.flush(), full_transcript(released, noise(9000, seed), search))
    assert stream.flush().text == "" and stream.flush().units == ()


@pytest.mark.parametrize(
    ("labels", "language_model", "beam"),
    [(LABELS, None, 1), ([*"ab ", "'", "c"], None, 8), (["▁go", *"stop"], None, 8), (LABELS, LANGUAGE_MODEL, 8)],
    ids=["words", "characters", "pieces", "a language model"],
)
def test_the_default_is_greedy_for_words_alone(labels, language_model, beam):
    released = model(labels=labels)
    stream = vitspeech.TranscriptStream(released, search=Search(language_model=language_model))
    stream.push(noise(9000))
    expected = full_transcript(released, noise(9000), Search(beam, language_model=language_model))
    assert_same(stream.flush(), expected)
    other = full_transcript(released, noise(9000), Search(9 - beam, language_model=language_model))
    assert other.log_probability != expected.log_probability


@settings(deadline=None, max_examples=30)
@given(
    samples=draw.integers(1, 9000),
    sizes=draw.lists(draw.integers(100, 4000), min_size=1, max_size=4),
    beam=draw.integers(2, 5),
    seed=draw.integers(0, 9),
    language_model=draw.sampled_from([None, LANGUAGE_MODEL]),
)
def test_words_of_a_beam_are_yielded_once_and_equal_the_final_transcript(samples, sizes, beam, seed, language_model):
    released, waveform = model(), noise(samples, seed)
    search = Search(beam, language_model=language_model)
    words = list(vitspeech.TranscriptStream(released, search=search).words(pushes(waveform, sizes)))
    if samples < released.network.tokens.window_samples:
        assert words == []
        return
    assert tuple(words) == full_transcript(released, waveform, search).units


UNITS = {"words": LABELS, "characters": [" ", "'", "a", "b", "c"], "pieces": ["▁", "▁ab", "c", "▁d", "e"]}


@settings(deadline=None, max_examples=40)
@given(
    units=draw.sampled_from(list(UNITS)),
    samples=draw.integers(1, 9000),
    sizes=draw.lists(draw.integers(100, 4000), min_size=1, max_size=4),
    beam=draw.sampled_from([1, 3]),
    seed=draw.integers(0, 9),
)
def test_live_words_are_printed_once_and_those_of_the_transcript(units, samples, sizes, beam, seed):
    released, waveform = model(labels=UNITS[units]), noise(samples, seed)
    stream = vitspeech.TranscriptStream(released, search=Search(beam))
    steps, words = list(stream.live(pushes(waveform, sizes))), ()
    whole = vitspeech.TranscriptStream(released, search=Search(beam))
    for (final, text), part in zip(steps, [*pushes(waveform, sizes), None], strict=True):
        words += final
        so_far = whole.flush() if part is None else whole.push(part)
        assert " ".join([*(word.label for word in words), *text.split()]) == so_far.text
    assert words == so_far.words and text == ""


@pytest.mark.parametrize("hear", ["live", "words"])
def test_a_stream_of_words_keeps_few_units(hear):
    stream, kept = vitspeech.TranscriptStream(model(), search=Search(1)), 0
    for _ in getattr(stream, hear)(noise(90_000).split(900)):
        kept = max(kept, len(stream.search.best().units))
    assert kept < 10
