"""The words of a stream of frame labels are those of the full recording."""

import pytest
import torch
from label_runs import words_of

from vitspeech.checkpoint.model import Model
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.label_stream import LabelStream, words_of_frames
from vitspeech.models import SpeechLabeler

LABELS = ["go", "stop"]


def model(kind=SpeechLabeler, right=1) -> Model:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stem="stacked", stride=3)
    network = kind(len(LABELS) + 1, tokens, {"left": 5, "right": right, "depth": 2, "heads": 3}).eval()
    network.initialize(0.1 * torch.randn(3, 16_000))
    return Model(network, LABELS, {"sample_rate_hz": 16_000}, {}, {})


def say(labeler, labels, logit=9.0):
    """Replace the network's logits: every frame has the next of these labels, which are repeated, at this logit."""
    frames = iter(labels * 100)

    def logits(tokens):
        rows = [next(frames) for _ in range(3 * tokens.shape[1])]
        return logit * torch.nn.functional.one_hot(torch.tensor(rows, dtype=torch.long).view(1, -1), 3).float()

    labeler.network.frame_logits = logits


@pytest.mark.parametrize("size", [160, 999, 16_000])
def test_the_words_of_a_stream_are_those_of_the_recording(size):
    released = model()
    runs = [2] * 7 + [0] * 15 + [1] * 14 + [2] * 3 + [1] * 20 + [0] * 16 + [2] * 30 + [0] * 40
    waveform = 0.1 * torch.randn(32_000)
    say(released, runs)
    words = list(LabelStream(released).words(waveform.split(size)))
    frames = 3 * released.network.tokens.count(torch.tensor([len(waveform)])).item()
    expected = words_of(
        torch.tensor((runs * 3)[:frames]),
        silence=2,
        first_s=released.network.first_frame_ms / 1000,
        frame_s=released.network.frame_ms / 1000,
        shortest_s=0.15,
    )
    assert [(LABELS.index(word.label), word.start_s, word.end_s) for word in words] == [
        (word.label, word.start_s, word.end_s) for word in expected
    ]
    assert [word.label for word in words[:3]] == ["go", "stop", "go"]  # a run of 14 frames is too short


@pytest.mark.parametrize(("logit", "words"), [(1.53, 0), (1.55, 1)])  # the mean probability is 0.698 and 0.702
def test_an_improbable_run_is_no_word(logit, words):
    released = model()
    say(released, [2] * 20 + [0] * 18 + [2] * 400, logit)
    stream = LabelStream(released)
    assert len(list(stream.words(torch.zeros(16_000).split(999)))) == words
    rows = logit * torch.nn.functional.one_hot(torch.tensor([2] * 20 + [0] * 18 + [2]), 3).float()
    assert len(words_of_frames(released.network, LABELS, rows)) == words


def test_a_real_network_gives_the_words_of_its_own_frames():
    released = model()
    for parameter in released.network.head.parameters():  # the three frames of a token get the same label
        rows = parameter.data.view(3, 3, -1)
        rows[1:] = rows[0].clone()
        parameter.data *= 3  # some runs are probable, others are not
    time_s, generator = torch.arange(3_200) / 16_000, torch.Generator().manual_seed(0)
    hertz = 200 + 5_000 * torch.rand(64, generator=generator)
    waveform = torch.cat([0.3 * torch.sin(2 * torch.pi * tone * time_s) for tone in hertz])
    with torch.inference_mode():
        logits = released.network.forward_frames(waveform[None])[0]
        expected = words_of_frames(released.network, LABELS, logits)
    frame_s = released.network.frame_ms / 1000
    long = words_of(logits.argmax(-1), silence=2, first_s=0.0, frame_s=frame_s, shortest_s=0.15)
    assert 5 < len(expected) < len(long) - 2
    stream = LabelStream(released)
    for _ in range(2):  # the second time after `flush`
        assert list(stream.words(waveform.split(1_600))) == expected


def test_a_word_is_returned_as_soon_as_another_label_follows():
    released = model()
    say(released, [2] * 6 + [0] * 18 + [2] * 200)
    stream = LabelStream(released)
    hop = stream.stream.hop_samples
    first = stream.stream.latency_samples + 8 * hop  # the token whose first frame follows the word
    assert stream.push(torch.zeros(first - 1)) == []
    ((word),) = stream.push(torch.zeros(1))
    assert word.label == "go" and word.end_s - word.start_s == pytest.approx(0.18)
    assert stream.flush() == []


def test_restart_forgets_the_run():
    released = model()
    say(released, [0] * 1000)
    stream = LabelStream(released)
    stream.push(torch.zeros(16_000))
    stream.restart()
    stream.push(torch.zeros(stream.latency_samples))
    assert stream.flush() == []  # one to a few tokens of 30 ms


def test_a_network_without_the_times_of_its_frames_is_refused_by_name():
    class Mine(torch.nn.Module):
        pass

    with pytest.raises(ValueError, match="Mine has no first_frame_ms and frame_ms"):
        words_of_frames(Mine(), LABELS, torch.zeros(3, 3))
