"""Transcription: the loss of teacher forcing written out, its share of CTC, and what greedy search may say."""

import pytest
import torch
from arguments import nested
from tiny import noise
from torch.nn import functional as F

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechTranscriber
from vitspeech.tasks import Transcription

LABELS, END = ["go", "stop", "left"], 3
SAID = [[0], [1, 1], [2, 0, 2], [0, 0, 0], [1], [2, 1], [0, 1, 2]]
LENGTHS = [4003, 9001, 6007, 12_011, 2003, 5003, 8009]


def transcriber(**options) -> SpeechTranscriber:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    network = SpeechTranscriber(3, tokens, **nested(depth=1, heads=3, decoder_depth=2, **options)).double().eval()
    network.head.weight.data *= 5  # surer than at random
    return network


def task(network: SpeechTranscriber, **options) -> Transcription:
    """A task in evaluation mode, and with `train=True` in training, the network in evaluation mode all the same."""
    training = options.pop("train", False)
    made = Transcription(network, **options).train(training)
    made.network.eval()
    made.labels = LABELS
    return made


def written_out(network: SpeechTranscriber, smoothing: float = 0.0) -> tuple[float, float]:
    """Cross-entropy of every unit and of the end, and CTC's loss, each utterance by itself, in nats a unit."""
    speech, decoder, ctc = noise(SAID, LENGTHS), 0.0, 0.0
    for waveform, length, said in zip(speech.waveforms, LENGTHS, SAID, strict=True):
        output = network(waveform[None, :length], None, torch.tensor([said]))
        rows = output.logits[0].log_softmax(-1)
        assert len(rows) == len(said) + 1
        for row, wanted in zip(rows, [*said, END], strict=True):
            decoder -= ((1 - smoothing) * row[wanted] + smoothing / 4 * row.sum()).item()
        if output.ctc_logits is not None:
            heard, counts = output.ctc_logits[0].log_softmax(-1), torch.tensor([[output.tokens[0]], [len(said)]])
            ctc += F.ctc_loss(heard[:, None], torch.tensor([said]), *counts, END, "sum").item()
    units = sum(map(len, SAID))
    return decoder / units, ctc / units


@pytest.mark.parametrize("order, further", [(range(7), 0), ([3, 0, 6, 1, 5, 2, 4], 3)])
@torch.no_grad()
def test_the_loss_is_the_sum_over_units_and_the_end_whatever_the_order_and_the_padding(order, further):
    network, speech = transcriber(), noise(SAID, LENGTHS)
    units = F.pad(speech.units, (0, further), value=-1)
    waveforms = F.pad(speech.waveforms, (0, 1000 * further), value=0.5)
    shuffled = speech._replace(waveforms=waveforms, units=units, spans=F.pad(speech.spans, (0, 0, 0, further)))
    shuffled = type(speech)(*(part[list(order)] for part in shuffled))
    assert task(network).loss(shuffled).item() == pytest.approx(written_out(network)[0], rel=1e-6)


@torch.no_grad()
def test_the_decoder_learns_to_end_at_once_where_nothing_is_said():
    network, speech = transcriber(), noise([[0], [1, 1], [2]], LENGTHS[:3])
    made = task(network, ctc_weight=0.0)
    ends = network(speech.waveforms[1:2, :9001], None, torch.zeros(1, 0, dtype=torch.long)).logits.log_softmax(-1)
    assert ends.shape == (1, 1, 4)
    units = torch.tensor([[0, -1], [-1, -1], [2, -1]])
    others = made.group_loss(speech.waveforms[::2], speech.lengths[::2], units[::2], speech.spans[::2])
    loss = made.group_loss(speech.waveforms, speech.lengths, units, speech.spans)
    assert (loss - others).item() == pytest.approx(-ends[0, 0, END].item(), rel=1e-5)


@torch.no_grad()
def test_labels_are_smoothed_only_in_training():
    network, speech = transcriber(), noise(SAID, LENGTHS)
    plain, smoothed = written_out(network)[0], written_out(network, 0.2)[0]
    assert abs(plain - smoothed) > 1e-2
    assert task(network, label_smoothing=0.2, train=True).loss(speech).item() == pytest.approx(smoothed, rel=1e-6)
    assert task(network, label_smoothing=0.2).loss(speech).item() == pytest.approx(plain, rel=1e-6)


@torch.no_grad()
def test_ctc_has_its_share_of_the_loss(weight=0.3):
    network = transcriber(ctc=True)
    decoder, ctc = written_out(network)
    found = task(network, ctc_weight=weight).loss(noise(SAID, LENGTHS)).item()
    assert found == pytest.approx((1 - weight) * decoder + weight * ctc, rel=1e-6)


def test_the_share_of_ctc_and_its_head_need_each_other():
    with pytest.raises(ValueError, match=r"ctc_weight=0\.3, but the network has no CTC head"):
        task(transcriber(), ctc_weight=0.3)
    with pytest.raises(ValueError, match=r"ctc_weight=0\.0, but the network has a CTC head"):
        task(transcriber(ctc=True))


def test_an_utterance_too_short_for_ctc_is_named_where_ctc_counts():
    speech = noise([[0, 0, 0], [1]], [2003, 5000])
    assert task(transcriber()).loss(speech).isfinite()
    with pytest.raises(ValueError, match="'go go go': its 2 tokens are fewer than the 5 that CTC needs"):
        task(transcriber(ctc=True), ctc_weight=0.3).loss(speech)


@torch.no_grad()
def test_what_is_decoded_is_the_likeliest_unit_after_those_before_it():
    network, speech = transcriber(), noise(SAID, LENGTHS)
    network.head.bias[END] += 0.5
    found = task(network).greedy_transcripts(*network.encode(speech.waveforms, speech.lengths))
    lengths = set()
    for waveform, length, units in zip(speech.waveforms, LENGTHS, found, strict=True):
        said, tokens = [], int(network.tokens.count(torch.tensor(length)))
        while len(said) < tokens:
            given = torch.tensor([said], dtype=torch.long)
            unit = int(network(waveform[None, :length], None, given).logits[0, -1].argmax())
            if unit == END:
                break
            said.append(unit)
        assert list(units) == said
        lengths.add(len(said))
    assert len(lengths) > 1


@torch.no_grad()
def test_a_decoder_without_an_end_outputs_at_most_one_unit_per_token():
    network, speech = transcriber(), noise(SAID, LENGTHS)
    network.head.bias[END] = -1e6
    found = task(network).greedy_transcripts(*network.encode(speech.waveforms, speech.lengths))
    assert [len(units) for units in found] == network.tokens.count(speech.lengths).tolist()
