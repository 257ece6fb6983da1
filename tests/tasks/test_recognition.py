"""Recognition: the CTC loss against its definition, for any order, padding and grouping of the batch; refused batches.

Shapes: B utterances, T tokens, C = 4 classes (the last class is the blank), U units.
"""

import copy
from contextlib import nullcontext
from itertools import groupby, product
from types import SimpleNamespace

import pytest
import torch
from tiny import noise
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from vitspeech.data.batches import SpeechBatch
from vitspeech.encoders import RecurrentEncoder
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechRecognizer
from vitspeech.tasks import Recognition
from vitspeech.tasks import task as utterance_task
from vitspeech.tasks.recognition import transcripts
from vitspeech.tasks.task import length_groups

LABELS, BLANK = ["go", "stop", "left"], 3
SAID = [[0], [1, 1], [2, 0, 2], [0, 0, 0], [1], [2, 1], [0, 1, 2]]
LENGTHS = [4003, 9001, 6007, 12_011, 2003, 5003, 8009]


class Rows(nn.Module):
    """A network whose logits are its samples: four samples a token."""

    def forward(self, waveforms, lengths):
        return waveforms.unflatten(1, (-1, 4)), lengths // 4


def task(network: nn.Module) -> Recognition:
    made = Recognition(network)
    made.labels = LABELS
    return made.eval()


def recognizer() -> SpeechRecognizer:
    torch.manual_seed(0)
    network = (
        SpeechRecognizer(3, SpeechFrontend(12, mels=17, stride=3), encoder={"depth": 2, "heads": 3}).double().eval()
    )
    network.head.weight.data *= 5  # surer than at random
    return network


def written_out(network, speech: SpeechBatch) -> float:
    """The loss utterance by utterance, each by itself and unpadded, in double precision."""
    total = 0.0
    for waveform, length, said in zip(
        speech.waveforms, speech.lengths.tolist(), transcripts(speech.units), strict=True
    ):
        logits = network(waveform[None, :length], None)[0][0].double()
        counts = [torch.tensor([len(logits)]), torch.tensor([len(said)])]
        total += F.ctc_loss(logits.log_softmax(-1)[:, None], torch.tensor([said]), *counts, BLANK, "sum").item()
    return total / sum(map(len, transcripts(speech.units)))


def collapsed(path):
    return [unit for unit, _ in groupby(path) if unit != BLANK]


@pytest.mark.parametrize("said", [[0], [1, 0], [2, 2], [0, 1, 0]])
def test_the_loss_is_minus_the_logarithm_of_the_sum_over_all_alignments(said):
    logits = torch.randn(1, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    shares = logits[0, :5].softmax(-1)  # the sixth token is padding
    paths = [path for path in product(range(4), repeat=5) if collapsed(path) == said]
    likelihood = sum(shares[range(5), path].prod() for path in paths)
    found = task(Rows()).ctc_loss(logits, torch.tensor([5]), torch.tensor([[*said, -1, -1]]))
    assert found.item() == pytest.approx(-likelihood.log().item(), rel=1e-6)


@pytest.mark.parametrize("order, further", [(range(7), 0), ([3, 0, 6, 1, 5, 2, 4], 5000)])
@torch.no_grad()
def test_the_loss_is_that_of_each_utterance_alone_whatever_the_order_and_the_padding(order, further):
    network = recognizer()
    speech = noise(SAID, LENGTHS)
    expected = written_out(network, speech)
    shuffled = SpeechBatch(*(part[list(order)] for part in speech))
    more = torch.randn(7, further, dtype=torch.float64)
    shuffled = shuffled._replace(waveforms=torch.cat((shuffled.waveforms, more), dim=1))
    assert task(network).loss(shuffled).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("number", [3, 20])
@torch.no_grad()
def test_the_loss_and_its_gradient_do_not_depend_on_the_number_of_groups(monkeypatch, number):
    network, speech, gradients = recognizer(), noise(SAID, LENGTHS), []
    monkeypatch.setattr(utterance_task, "SMALLEST_GROUP", 1)
    for count in (1, number):
        monkeypatch.setattr(utterance_task, "GROUPS", count)
        network.zero_grad()
        with torch.enable_grad():
            task(network).loss(speech).backward()
        gradients.append(network.head.weight.grad)
    assert gradients[0].abs().max() > 1e-3
    assert torch.allclose(*gradients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 15, 16, 33])
def test_groups_have_every_utterance_once_and_no_more_padding_than_they_need(count):
    lengths = torch.randperm(100, generator=torch.Generator().manual_seed(count))[:count] + 300  # not SHORT
    said = [[(place + 1) % 5] * (1 + place % 3) for place in range(count)]
    speech = noise(said, lengths.tolist())
    speech.waveforms[:, 0] = torch.arange(count)
    seen, longest = [], 0
    sizes = [len(waveforms) for waveforms, *_ in length_groups(speech)]
    assert len(sizes) == (4 if count >= 32 else max(count // 8, 1)) and min(sizes) >= min(count, 8)
    for waveforms, of_part, units, spans in length_groups(speech):
        assert waveforms.shape[1] == of_part.max() and of_part.min() >= longest
        assert units.shape[1] == spans.shape[1] == (units >= 0).sum(1).max()
        longest = of_part.max()
        for waveform, length, row, span in zip(waveforms, of_part, units, spans, strict=True):
            place = int(waveform[0])
            seen.append(place)
            assert length == lengths[place] and row[row >= 0].tolist() == said[place]
            assert torch.equal(waveform[:length], speech.waveforms[place, :length])
            assert (span[:, 1] > 0).sum() == len(said[place])
    assert sorted(seen) == list(range(count))


def test_short_inputs_such_as_symbols_are_one_group():
    speech = noise([[1]] * 64, [4 + place for place in range(64)])
    ((waveforms, lengths, _, _),) = length_groups(speech)
    assert waveforms.shape == (64, 67) and sorted(lengths.tolist()) == list(range(4, 68))


@pytest.mark.parametrize(("said", "tokens", "needed"), [([0, 1, 2], 2, 3), ([2, 2], 2, 3), ([1, 1, 1], 4, 5)])
def test_an_utterance_shorter_than_its_transcript_needs_is_named_and_gives_no_infinite_loss(said, tokens, needed):
    speech = noise([[0], said, [1], [2]], [40, 4 * tokens, 80, 60])
    words = " ".join(LABELS[unit] for unit in said)
    message = f"'{words}': its {tokens} tokens are fewer than the {needed} that CTC needs"
    with pytest.raises(ValueError, match=message):
        task(Rows()).loss(speech)
    enough = speech._replace(lengths=torch.tensor([40, 4 * needed, 80, 60]))
    assert task(Rows()).loss(enough).isfinite()


@pytest.mark.parametrize("said", [[[0, 1], []], [[], []]], ids=["one silent", "all silent"])
def test_the_loss_of_an_utterance_without_words_is_that_of_blanks_alone(said):
    speech, made = noise([[0, 1], [1]], [40, 60]), task(Rows())
    units = torch.tensor([row + [-1] * (2 - len(row)) for row in said])
    logits, tokens = made.network(speech.waveforms, speech.lengths)
    blanks = -logits.log_softmax(-1)[1, : tokens[1], 3].sum()
    loss = made.group_loss(speech.waveforms, speech.lengths, units, speech.spans)
    alone = made.group_loss(speech.waveforms[:1], speech.lengths[:1], units[:1], speech.spans[:1])
    assert (loss - alone).item() == pytest.approx(blanks.item(), rel=1e-5)
    assert made.loss(speech._replace(units=units)).item() == pytest.approx(loss.item() / 2)  # units, or utterances


class Train:
    """Ten training utterances of 5 .. 14 samples, each of its own number, in batches of one seed."""

    def __len__(self):
        return 10

    def __getitem__(self, batch):
        indices, seed = batch
        assert seed == 23
        sounds = [torch.full((int(index) + 5,), int(index) + 1, dtype=torch.int16) for index in indices]
        nothing = torch.zeros(len(sounds), 1)
        return SpeechBatch(
            pad_sequence(sounds, True), torch.tensor([len(sound) for sound in sounds]), nothing, nothing
        ), seed


def test_the_sample_is_training_utterances_as_they_are_fed_end_to_end_without_padding():
    def training_batch(speech, seed):
        assert seed == 23
        return speech._replace(waveforms=speech.waveforms / 8)

    data = SimpleNamespace(train=Train(), seed=23, training_batch=training_batch)
    found = task(Rows()).sample(data)
    assert found.tolist() == [[(number + 1) / 8 for number in range(10) for _ in range(number + 5)]]


def spelled(path) -> torch.Tensor:
    """The samples with which `Rows` finds that class likeliest at each token."""
    return (5.0 * F.one_hot(torch.tensor(path), 4)).flatten()


def validated(said, paths) -> dict:
    """What validation logs of utterances whose likeliest classes are those of the paths."""
    made, logged = task(Rows()), {}
    made.trainer = SimpleNamespace(datamodule=SimpleNamespace(labels=LABELS), current_epoch=0)
    made.setup("validate")
    made.log = lambda name, value, **_: logged.update({name: value})
    units = pad_sequence([torch.tensor(row) for row in said], True, -1)
    sounds = [spelled(path) for path in paths]
    lengths = torch.tensor([len(sound) for sound in sounds])
    speech = SpeechBatch(pad_sequence(sounds, True), lengths, units, torch.zeros(*units.shape, 2, dtype=torch.long))
    made.validation_step(speech, 0)
    return logged


def test_the_error_rate_is_that_of_greedy_search_over_all_units():
    # Said: go stop | left | go go | stop. Heard: go (one deleted) | left | go go left (one inserted) | left (another).
    said = [[0, 1], [2], [0, 0], [1]]
    paths = [[0, 0, 3, 3], [3, 2, 2], [0, 3, 0, 2, 2, 3], [3, 2, 3, 3, 3]]
    logged = validated(said, paths)
    assert logged["val_error_rate"].compute().item() == pytest.approx(3 / 6)
    total = 0.0
    for row, path in zip(said, paths, strict=True):
        rows = (5.0 * F.one_hot(torch.tensor(path), 4)).double().softmax(-1)
        found = [way for way in product(range(4), repeat=len(path)) if collapsed(way) == row]
        total -= sum(rows[range(len(path)), way].prod() for way in found).log().item()
    assert logged["val_loss"].compute().item() == pytest.approx(total / 6, rel=1e-5)


def intermediate(weight, blocks=None, depth=3):
    torch.manual_seed(0)
    encoder = {"depth": depth, "heads": 3}
    network = SpeechRecognizer(3, SpeechFrontend(12, mels=17, stride=3), encoder=encoder).double()
    made = Recognition(network, intermediate_ctc=weight, intermediate_blocks=blocks)
    made.labels = LABELS
    return made


def after(network: SpeechRecognizer, blocks: int) -> SpeechRecognizer:
    """The network without its later blocks."""
    network = copy.deepcopy(network)
    network.encoder.blocks = network.encoder.blocks[:blocks]
    return network


def test_intermediate_ctc_is_the_loss_of_the_network_cut_after_those_blocks():
    made, speech = intermediate(0.3, [1, 2]), noise(SAID, LENGTHS)
    whole, *cut = (task(after(made.network, blocks)).loss(speech) for blocks in (3, 1, 2))
    made.train().network.eval()  # batch norm in evaluation, as in the others
    torch.testing.assert_close(made.loss(speech), 0.7 * whole + 0.3 * sum(cut) / 2)
    torch.testing.assert_close(made.eval().loss(speech), whole)  # validation compares runs with any weight


@pytest.mark.parametrize("blocks", [[0], [3], [1, 4], []])
def test_blocks_that_are_not_before_the_last_are_refused(blocks):
    with pytest.raises(InputError, match=r"intermediate_blocks=.* not within 1 .. 2"):
        intermediate(0.3, blocks)


def test_intermediate_ctc_needs_blocks_of_attention():
    network = SpeechRecognizer(3, SpeechFrontend(12), encoder=RecurrentEncoder(12, bidirectional=False))
    with pytest.raises(InputError, match="the encoder of SpeechRecognizer has no blocks of attention"):
        Recognition(network, intermediate_ctc=0.3)


def test_an_utterance_that_speed_made_too_short_counts_for_nothing():
    made = task(recognizer())
    both, long = noise([[0], [1, 1, 1, 1]], [8000, 2000]), noise([[0]], [8000])
    long = long._replace(waveforms=both.waveforms[:1])
    with pytest.raises(InputError, match="use a smaller stride"):
        made.train().loss(both)
    made.changes_speed = True
    gradients = []
    for speech in (both, long):
        made.network.zero_grad()
        made.train().network.eval()  # batch norm in evaluation, since in training it sees both utterances
        loss = made.loss(speech) * len([unit for row in transcripts(speech.units) for unit in row])
        loss.backward()
        gradients.append((loss.detach(), made.network.head.weight.grad.clone()))
    torch.testing.assert_close(*gradients)


class EveryItem:
    """A training set of two items, which gives the same result whatever is asked for."""

    def __init__(self, result):
        self.result = result

    def __len__(self):
        return 2

    def __getitem__(self, _):
        return self.result


@pytest.mark.parametrize("speed", [0.0, 0.1])
def test_a_training_batch_is_tried_out_as_in_training(speed):
    """If the speed changes, an utterance may be too short in one epoch."""
    speech = noise([[0], [1, 1, 1, 1]], [8000, 2000])
    data = SimpleNamespace(labels=LABELS, batch=2, seed=0, augment=SimpleNamespace(speed=speed), validation=None)
    data.train, data.training_batch = EveryItem((speech,)), lambda speech: speech
    made = task(recognizer())
    with nullcontext() if speed else pytest.raises(InputError, match="use a smaller stride"):
        made.smoke_test(data)
    with pytest.raises(InputError, match="use a smaller stride"):
        made.eval().loss(speech)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_an_utterance_too_short_for_its_transcript_is_named_before_training(split):
    utterances = [SimpleNamespace(id="good.wav"), SimpleNamespace(id="bad.wav")]
    good = SimpleNamespace(seconds=torch.tensor([2.0, 2.0]), units=[[0, 1], [1, 1, 1]], utterances=utterances)
    bad = SimpleNamespace(seconds=torch.tensor([2.0, 0.1]), units=[[0, 1], [1, 1, 1]], utterances=utterances)
    data = SimpleNamespace(**{"train": good, "validation": good, split: bad}, labels=["a", "b"], sample_rate_hz=16_000)
    made = task(recognizer())
    message = rf"1 of the 2 {split} utterances are too short, first bad.wav: its \d+ tokens are fewer than the 5"
    with pytest.raises(InputError, match=message):
        made.smoke_test(data)
