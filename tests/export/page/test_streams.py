"""Streams that no released model has: a labeler with several rows a token, a causal GRU and a `WindowMLP`."""

import numpy
import pytest
import soundfile
import torch
from label_runs import words_of
from speech_page import GRU, LABELER, RANDOM, SAMPLE, SHORTEST_MS, WINDOW, give, heard, model, run, status, whole

import vitspeech
from vitspeech.inference.label_stream import LABEL_PROBABILITY
from vitspeech.inference.spotting import WordSpotter
from vitspeech.receptive.heads.figure import forward_with_attention


def shown(page, name):
    """The table of words of the sample recording: label, start and end of each."""
    page.get_by_role("combobox", name="Model").select_option(label=name)
    status(page, "Ready")
    give(page, "sample.wav", SAMPLE.read_bytes())
    status(page, "sample.wav: ")
    page.get_by_role("status").filter(has_text="in 3.9 s").wait_for()
    return [row[:3] for row in heard(page)]


def lines(words):
    return [[label, f"{start:.2f} s", f"{end:.2f} s"] for label, start, end in words]


def sample():
    return torch.from_numpy(soundfile.read(SAMPLE, dtype="float32")[0])


@pytest.mark.parametrize("name", RANDOM)
def test_logits_equal_those_of_torch(modules, name):
    content = SAMPLE.read_bytes()
    computed, expected = numpy.array(run(modules, name, content)["rows"]), whole(name, content)
    assert computed.shape == expected.shape and len(expected) > 90
    assert abs(computed - expected).max() < 1e-3 * abs(expected).max()


def test_labels_are_runs_of_the_rows_of_the_stream(page):
    labeler = model(LABELER)
    network, none = labeler.network, len(labeler.labels)
    times = {"first_s": network.first_frame_ms / 1000, "frame_s": network.frame_ms / 1000}
    probabilities, best = torch.from_numpy(whole(LABELER, SAMPLE.read_bytes())).softmax(-1).max(-1)
    runs = words_of(best, silence=none, shortest_s=0, **times)
    long = words_of(best, silence=none, shortest_s=SHORTEST_MS / 1000, **times)
    probable = {"probabilities": probabilities, "least_probability": LABEL_PROBABILITY}
    words = words_of(best, silence=none, shortest_s=SHORTEST_MS / 1000, **probable, **times)
    assert len(runs) > len(long) > len(words) > 20 and none in best and len({word.label for word in words}) > 2
    assert shown(page, LABELER) == lines((labeler.labels[word.label], word.start_s, word.end_s) for word in words)
    names = set(page.locator(".bars > span:not([class*=bar]):not(.number)").all_inner_texts())
    assert names == {*labeler.labels, "(none)"}


def test_attention_of_a_labeler_is_that_of_the_token_of_each_frame(modules):
    weights = forward_with_attention(model(LABELER).network, sample()[None]).weights[:, 0]
    choose = [(row, block, head) for row in (0, 8, 100, 101) for block in (0, 1) for head in (0, 1)]
    computed = run(modules, LABELER, SAMPLE.read_bytes(), choose)["weights"]
    for (row, block, head), bars in zip(choose, computed, strict=True):
        token, left, right = row // 3, (3, 5)[block], (1, 2)[block]
        expected = weights[block, head, token, max(token - left, 0) : token + right + 1].tolist()
        assert [weight for _, weight in bars] == pytest.approx(expected, abs=1e-4), (row, block, head)


def test_words_of_an_encoder_without_attention(page):
    words = [(word.label, word.start_s, word.end_s) for word in WordSpotter(model(GRU)).words([sample()])]
    assert words and shown(page, GRU) == lines(words)
    assert not page.get_by_role("heading", name="What the heads attend to").is_visible()
    stream = vitspeech.TranscriptStream(model(WINDOW), search=vitspeech.Search(beam=1))
    words = [(word.label, word.start_s, word.end_s) for word in stream.words([sample()])]
    assert words and shown(page, WINDOW) == lines(words)
