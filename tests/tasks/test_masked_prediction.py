"""Masked prediction: it learns, counts masked tokens alone, and what it has learned starts a recognizer."""

from types import SimpleNamespace

import pytest
import torch
from tiny import noise
from torch.nn import functional as F

import vitspeech
from vitspeech.checkpoint.transfer import transfer
from vitspeech.data.batches import SpeechBatch, collate
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import MaskedSpeechModel, SpeechRecognizer
from vitspeech.tasks import MaskedPrediction
from vitspeech.tasks import task as utterance_task

SAID = [[0], [1, 1], [2, 0, 2], [0, 0, 0], [1], [2, 1], [0, 1, 2]]
LENGTHS = [4003, 9001, 6007, 12_011, 2003, 5003, 8009]


def task(codes=7, **arguments) -> MaskedPrediction:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    network = MaskedSpeechModel(codes, tokens, {"depth": 2, "heads": 3}, span_ms=90, **arguments).double()
    network.initialize(noise(SAID, LENGTHS).waveforms)
    network.code_head.weight.data *= 5  # surer than at random
    made = MaskedPrediction(network)
    made.trainer = SimpleNamespace(datamodule=SimpleNamespace(labels=["a"]))
    made.setup("validate")
    return made.eval()


def alone(network, speech) -> list[tuple[float, int, int]]:
    """Loss, right codes and masked tokens of each utterance by itself and unpadded."""
    found = []
    for waveform, length in zip(speech.waveforms, speech.lengths.tolist(), strict=True):
        logits, codes, mask = network(waveform[None, :length])
        loss = F.cross_entropy(logits, codes, reduction="sum").item()
        found.append((loss, int((logits.argmax(-1) == codes).sum()), int(mask.sum())))
    return found


def validated(made, batch) -> dict:
    logged = {}
    made.log = lambda name, value, **_: logged.update({name: value})
    made.validation_step(batch, 0)
    return {name: value.compute().item() for name, value in logged.items()}


@pytest.mark.parametrize("order, further, groups", [(range(7), 0, 1), ([3, 0, 6, 1, 5, 2, 4], 5000, 3)])
@torch.no_grad()
def test_loss_and_accuracy_are_those_of_the_masked_tokens_whatever_order_padding_and_groups(
    monkeypatch, order, further, groups
):
    monkeypatch.setattr(utterance_task, "SMALLEST_GROUP", 1)
    monkeypatch.setattr(utterance_task, "GROUPS", groups)
    made, speech = task(), noise(SAID, LENGTHS)
    losses, right, counts = map(sum, zip(*alone(made.network, speech), strict=True))
    assert 0 < right < counts < sum(made.network.tokens.count(speech.lengths).tolist())
    shuffled = SpeechBatch(*(part[list(order)] for part in speech))
    shuffled = shuffled._replace(waveforms=F.pad(shuffled.waveforms, (0, further), value=0.3))
    assert made.loss(shuffled).item() == pytest.approx(losses / counts, rel=1e-6)
    logged = validated(made, shuffled)
    assert logged["val_loss"] == pytest.approx(losses / counts, rel=1e-5)
    assert logged["val_accuracy"] == pytest.approx(right / counts)


@torch.no_grad()
def test_validation_does_not_depend_on_random_numbers():
    made, speech, found = task(), noise(SAID, LENGTHS), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(validated(made, speech)["val_loss"])
        made.val_loss.reset()
    assert found[0] == found[1]


@torch.no_grad()
def test_clips_of_one_length_are_a_batch_too():
    made, speech = task(), noise([[0]] * 5, [8000] * 5)
    assert made.loss((speech.waveforms, torch.arange(5))).item() == pytest.approx(made.loss(speech).item())


def tones(count: int, seed: int) -> SpeechBatch:
    """Utterances of one tone each, of four frequencies and of various lengths, in a little noise."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(6000, 12_000, (count,), generator=generator).tolist()
    hertz = (300 * 2 ** torch.randint(4, (count,), generator=generator)).tolist()
    seconds = torch.arange(12_000) / 16_000
    sounds = [torch.sin(2 * torch.pi * pitch * seconds[:size]) for pitch, size in zip(hertz, lengths, strict=True)]
    return collate([sound + 0.01 * torch.randn(len(sound), generator=generator) for sound in sounds], [[0]] * count)


def test_it_learns_what_the_sound_around_a_mask_says_about_it():
    torch.manual_seed(0)
    network = MaskedSpeechModel(16, SpeechFrontend(16, mels=20, stride=4), {"depth": 1, "heads": 2}, span_ms=120)
    network.initialize(tones(10, 0).waveforms)
    made, heard = MaskedPrediction(network).train(), tones(10, 1)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for seed in range(40):
        optimizer.zero_grad()
        torch.manual_seed(seed)
        made.loss(heard).backward()
        optimizer.step()
    made.eval()
    unheard = tones(10, 2)
    with torch.no_grad():
        loss, codes = made.loss(unheard).item(), network(unheard.waveforms, unheard.lengths).codes
    shares = codes.bincount().double() / len(codes)
    marginal = -shares.xlogy(shares).sum().item()
    assert marginal > 1 and loss < 0.5 * marginal


def test_a_recognizer_takes_all_of_tokens_and_encoder(finished_masked_run):
    model = vitspeech.load(finished_masked_run)
    assert type(model.network) is MaskedSpeechModel and model.task == "vitspeech.MaskedPrediction"
    tokens = dict(model.config["init_args"]["tokens"]["init_args"], spec_augment=None)
    # As many classes as codes: the rows of its head are no rows of labels.
    network = SpeechRecognizer(31, SpeechFrontend(**tokens), model.config["init_args"]["encoder"])
    found = transfer(model, network, [str(unit) for unit in range(31)], model.preprocessing)
    parts = {name for name in network.state_dict() if name.startswith(("tokens.", "encoder."))}
    assert set(found.taken) == parts and set(found.missing) == {"head.weight", "head.bias"}
    assert set(found.unused) == {"projection", "codebook", "code_head.weight", "code_head.bias"}


def test_networks_without_codes_and_other_data_are_refused_in_one_line():
    with pytest.raises(InputError, match="SpeechRecognizer has no codes of masked tokens; use"):
        MaskedPrediction(SpeechRecognizer(3))
    with pytest.raises(InputError, match="does not fit Shapes: it needs utterances or clips, not images"):
        MaskedPrediction.check_data(vitspeech.Shapes())
    with pytest.raises(InputError, match="does not fit SymbolTasks: it needs utterances or clips, not seq"):
        MaskedPrediction.check_data(vitspeech.SymbolTasks("copy"))


@pytest.mark.parametrize("command", [vitspeech.predict, vitspeech.transcribe])
def test_a_pretrained_model_is_no_recognizer(finished_masked_run, command):
    with pytest.raises(InputError, match="MaskedSpeechModel is pre-trained and outputs no labels or transcripts"):
        list(command(vitspeech.load(finished_masked_run), ["word.wav"]))
