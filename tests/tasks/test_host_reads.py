"""Training steps wait for no device: lengths are read on the host, and the network runs once a validation batch.

Waveforms are on PyTorch's device "meta", whose tensors have no values: reading one is an error.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from tiny import noise
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from vitspeech.attention import SelfAttentivePooling
from vitspeech.data import TranscribedAudio
from vitspeech.frontends import SpecAugment, SpeechFrontend
from vitspeech.models import MaskedSpeechModel, SpeechClassifier, SpeechLabeler, SpeechRecognizer, SpeechTranscriber
from vitspeech.tasks import Classification, JointRecognition, Labeling, MaskedPrediction, Recognition, Transcription
from vitspeech.tasks import task as utterance_task
from vitspeech.tasks.task import CHECK_EVERY, Task

LABELS = ["go", "stop", "left"]
SAID = [[0], [1, 1], [2, 0, 2], [0, 0, 0], [1], [2, 1], [0, 1, 2]]
LENGTHS = [4003, 9001, 6007, 12_011, 2003, 5003, 8009]


class Reads(TorchDispatchMode):
    """Counts how often the value of a tensor is read."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **(options or {}))


def made(name: str, left: int | None = None) -> Task:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3, spec_augment=SpecAugment())
    encoder = {"depth": 2, "heads": 3, "left": left, "right": left}
    task = {
        "recognition": lambda: Recognition(SpeechRecognizer(3, tokens, encoder=encoder)),
        "transcription": lambda: Transcription(
            SpeechTranscriber(3, tokens, encoder=encoder, ctc=True), ctc_weight=0.3, label_smoothing=0.1
        ),
        "joint": lambda: JointRecognition(SpeechTranscriber(3, tokens, encoder=encoder, ctc=True)),
        "masked": lambda: MaskedPrediction(MaskedSpeechModel(8, tokens, encoder=encoder)),
        "labeling": lambda: Labeling(SpeechLabeler(4, tokens, encoder=encoder)),
        "classification": lambda: Classification(SpeechClassifier(3, tokens, encoder=encoder)),
    }[name]()
    task.trainer = SimpleNamespace(
        datamodule=SimpleNamespace(labels=LABELS, preprocessing={"sample_rate_hz": 16_000}), global_step=0
    )
    task.setup("validate")
    task.log = lambda *_, **__: None
    return task.train()


def batch(name: str):
    speech = noise(SAID, LENGTHS)
    speech = speech._replace(waveforms=speech.waveforms.float())
    return (speech.waveforms, torch.arange(7) % 3) if name == "classification" else speech


UTTERANCE_TASKS = ["recognition", "transcription", "joint", "labeling", "masked"]
NAMES = pytest.mark.parametrize("name", [*UTTERANCE_TASKS, "classification"])


@NAMES
@pytest.mark.parametrize("left", [None, 3])
def test_a_training_step_needs_no_value_of_the_device(name, left, monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which does not know the device
    task, (waveforms, *others) = made(name, left), batch(name)
    task.network.to("meta")
    task.epoch_loss.to("meta")
    given = type(batch(name))(*((waveforms.to("meta"), *others) if name != "classification" else ()))
    if name == "classification":
        given = waveforms.to("meta"), others[0].to("meta")
    assert task.training_step(given, 0).device.type == "meta"


@torch.no_grad()
def test_augmentation_reads_no_scalar(tmp_path):
    (tmp_path / "train.csv").write_text("path,transcript\n")
    data = TranscribedAudio(str(tmp_path), vocabulary=LABELS)
    speech = noise(SAID, LENGTHS)
    with Reads() as reads:
        data.training_batch(speech._replace(waveforms=(1000 * speech.waveforms).short()), 0)
    assert reads.count == 0


@pytest.mark.parametrize("name", UTTERANCE_TASKS)
def test_validation_encodes_each_utterance_once(name):
    task, encoded = made(name).eval(), []
    task.network.encoder.register_forward_hook(lambda module, inputs, output: encoded.append(len(output)))
    task.validation_step(batch(name), 0)
    assert sum(encoded) == len(SAID)


class Penalized(nn.Module):
    """A recognizer with a penalty that is a mean over the utterances of a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.recognizer = SpeechRecognizer(3, SpeechFrontend(12, mels=17, stride=3), encoder={"depth": 1, "heads": 3})
        self.pooling = SelfAttentivePooling(12, hops=3, penalty=0.5)

    def forward(self, waveforms, lengths):
        encoded, padding = self.recognizer.encode(waveforms, lengths)
        self.pooling(encoded, padding)
        return self.recognizer.head(encoded), self.recognizer.tokens.count(lengths)


@pytest.mark.parametrize("number", [1, 2, 4, 7])
def test_the_auxiliary_loss_is_that_of_all_groups(number, monkeypatch):
    torch.manual_seed(0)
    network = Penalized().double()
    task = Recognition(network)
    task.labels, task.log = LABELS, lambda *_, **__: None
    network.recognizer.eval()  # batch norm as in evaluation, so that groups do not matter
    speech = noise(SAID, LENGTHS)
    network(speech.waveforms, speech.lengths)
    penalty, network.pooling.auxiliary_loss = network.pooling.auxiliary_loss, None
    network.pooling.eval()
    plain = task.loss(speech)
    network.pooling.train()
    monkeypatch.setattr(utterance_task, "GROUPS", number)
    monkeypatch.setattr(utterance_task, "SMALLEST_GROUP", 1)
    assert penalty > 0.1
    torch.testing.assert_close(task.training_step(speech, 0), plain + penalty)
    assert network.pooling.auxiliary_loss is None


class Ranks:
    """A trainer of two processes, of which this one sees finite losses only."""

    def __init__(self, others_finite: bool) -> None:
        self.global_step, self.current_epoch, self.checkpoint_callbacks = 0, 3, []
        self.strategy, self.others_finite, self.decisions = self, others_finite, []

    def reduce_boolean_decision(self, decision: bool) -> bool:
        self.decisions.append((self.global_step, decision))
        return decision and self.others_finite


def steps(trainer: Ranks, losses: list[float]) -> Task:
    task = Classification(nn.Linear(5, 3))
    task.trainer, task.log = trainer, lambda *_, **__: None
    task.loss = lambda batch: batch[0].sum()
    for number, value in enumerate(losses):
        trainer.global_step = 1000 + number
        task.training_step((torch.tensor([value]),), number)
    trainer.global_step += 1
    return task


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_broken_loss_is_named_by_the_steps_since_the_last_check(broken):
    task = steps(Ranks(True), [1.0] * CHECK_EVERY + [2.0, broken, 2.0])
    message = r"training loss is infinite or NaN at one of the steps 1050 to 1052, epoch 3; last good .*none yet"
    with pytest.raises(FloatingPointError, match=message):
        task.on_validation_start()


def test_a_broken_loss_of_another_process_stops_this_one():
    with pytest.raises(FloatingPointError, match="steps 1000 to 1049, epoch 3"):
        steps(Ranks(False), [1.0] * CHECK_EVERY)
