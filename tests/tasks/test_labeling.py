"""Labeling: cross-entropy over an utterance's own frames, each named by the word in which its center lies."""

from types import SimpleNamespace

import pytest
import torch
from tiny import noise
from torch.nn import functional as F

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechLabeler
from vitspeech.tasks import Labeling

LABELS, NONE = ["go", "stop", "left"], 3
LENGTHS = [4003, 9001, 6007, 12_011, 2003]
# Of each utterance: (word, first sample, the one after the last).
SAID = [
    [(0, 0, 1600)],
    [(1, 1000, 3000), (1, 3000, 8000)],
    [(2, 500, 1300), (0, 2000, 2100), (2, 4000, 6007)],
    [(0, 7000, 12_011)],
    [(1, 400, 2003)],
]


def labeler() -> SpeechLabeler:
    torch.manual_seed(0)
    network = SpeechLabeler(4, SpeechFrontend(12, mels=17, stride=2), encoder={"depth": 2, "heads": 3}).double().eval()
    network.head.weight.data *= 5
    return network


def speech():
    """The utterances, and what is behind each one's end said by nobody."""
    made = noise([[word for word, *_ in said] for said in SAID], LENGTHS)
    for row, said in zip(made.spans, SAID, strict=True):
        row[: len(said)] = torch.tensor([span for _, *span in said])
    return made


def task(network, labels=LABELS) -> Labeling:
    made = Labeling(network)
    data = SimpleNamespace(labels=labels, preprocessing={"sample_rate_hz": 16_000})
    made.trainer = SimpleNamespace(datamodule=data)
    made.setup("validate")
    return made.eval()


def labeled(network) -> tuple[list[torch.Tensor], list[list[int]]]:
    """Each utterance's logits by itself, and its frames' labels by their centers in samples."""
    rows, labels = [], []
    made = speech()
    for waveform, length, said in zip(made.waveforms, LENGTHS, SAID, strict=True):
        logits = network(waveform[None, :length])[0][0]
        # A convolutional token of stride 2 sees seven frames of 25 ms every 10 ms and names the third and the fourth,
        # each for the 10 ms in the middle of its window.
        centers = [320 + 120 + 160 * frame + 80 for frame in range(len(logits))]
        assert len(logits) == 2 * (1 + (length - 1360) // 320)
        rows.append(logits)
        labels.append([next((w for w, first, end in said if first <= at < end), NONE) for at in centers])
    return rows, labels


@pytest.mark.parametrize("order, further", [(range(5), 0), ([3, 0, 4, 1, 2], 4000)])
@torch.no_grad()
def test_the_loss_is_cross_entropy_over_the_frames_of_all_utterances(order, further):
    network = labeler()
    rows, labels = labeled(network)
    total = sum(
        -row.log_softmax(-1)[label].item()
        for some, names in zip(rows, labels, strict=True)
        for row, label in zip(some, names, strict=True)
    )
    made = speech()
    made = made._replace(waveforms=F.pad(made.waveforms, (0, further), value=0.3))
    made = type(made)(*(part[list(order)] for part in made))
    assert {NONE, 0, 1, 2} == {label for names in labels for label in names}
    assert task(network).loss(made).item() == pytest.approx(total / sum(map(len, labels)), rel=1e-6)


@torch.no_grad()
def test_validation_counts_the_frames_that_are_right_and_no_padding():
    network, logged = labeler(), {}
    rows, labels = labeled(network)
    right = [
        row.argmax().item() == name
        for some, names in zip(rows, labels, strict=True)
        for row, name in zip(some, names, strict=True)
    ]
    made = task(network)
    made.log = lambda name, value, **_: logged.update({name: value})
    made.validation_step(speech(), 0)
    assert 0 < sum(right) < len(right)
    assert logged["val_accuracy"].compute().item() == pytest.approx(sum(right) / len(right))
    assert logged["val_loss"].compute().item() == pytest.approx(made.loss(speech()).item())


def test_what_is_behind_an_utterances_end_changes_no_gradient():
    gradients = []
    for value in (0.0, 3.0):
        network, made = labeler(), speech()
        beyond = torch.arange(made.waveforms.shape[1]) >= made.lengths[:, None]
        task(network).loss(made._replace(waveforms=made.waveforms.masked_fill(beyond, value))).backward()
        gradients.append(network.head.weight.grad)
    assert gradients[0].abs().max() > 1e-3 and torch.allclose(*gradients, atol=1e-9)
