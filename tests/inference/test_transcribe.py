"""Transcripts: the search compared with enumeration of all labelings, and times with their definition.

The networks here compute a token from 1,360 samples (85 ms), every 480 samples (30 ms).
"""

from itertools import product

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from torch import nn
from torch.nn import functional as F

from vitspeech.attention.positions import LearnedPositions
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.decoding.unit_runs import Segment
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.transcribe import transcribe
from vitspeech.models import SpeechRecognizer, SpeechTranscriber

LABELS = ["go", "stop"]
LAST = 2  # the class of the blank, and of the end
SAMPLES = torch.tensor([2800, 1360, 2320])
TOKENS = [4, 1, 3]
GREEDY = Search(beam=1)
ALL = 500  # a beam of more hypotheses than there are labelings


def build(kind=SpeechRecognizer, units=2, dtype=torch.float64, last=0.0, **arguments):
    torch.manual_seed(3)
    network = (
        kind(units, SpeechFrontend(12, mels=17, stride=3), **nested(depth=1, heads=3, **arguments)).to(dtype).eval()
    )
    network.initialize(torch.randn(5, 16_000, dtype=dtype))
    for head in (network.head, getattr(network, "ctc_head", None)):
        if head is not None:
            head.weight.data *= 9  # more confident than at initialization, without a preferred class
            head.bias.data.zero_()[LAST] = last
    return network


def utterances(seed=1):
    return torch.randn(3, 2800, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Forced(nn.Module):
    """A head that outputs fixed rows, whatever its input."""

    def __init__(self, rows):
        super().__init__()
        self.rows = torch.tensor(rows, dtype=torch.float64)

    def forward(self, encoded):
        return self.rows[: encoded.shape[1]].expand(len(encoded), -1, -1)


def path_rows(path, classes=3):
    """Rows whose most probable classes are those of the path."""
    return (8.0 * F.one_hot(torch.tensor(path), classes)).tolist()


def all_labelings(longest):
    return [units for length in range(longest + 1) for units in product(range(2), repeat=length)]


def ctc(rows, units):
    """log p(units) by torch's sum over all alignments; -inf if there is none."""
    if not units:
        return rows[:, LAST].sum().item()
    counts = [torch.tensor([len(rows)]), torch.tensor([len(units)])]
    return -F.ctc_loss(rows[:, None], torch.tensor([units]), *counts, LAST, "sum").item()


@pytest.mark.parametrize("seed", range(2))
@torch.no_grad()
def test_a_beam_of_all_hypotheses_finds_the_most_probable_labeling(seed):
    network = build()
    found = transcribe_batch(network, LABELS, utterances(seed), SAMPLES, Search(beam=ALL))
    for transcript, waveform, samples in zip(found, utterances(seed), SAMPLES, strict=True):
        rows = network(waveform[None, :samples])[0][0].log_softmax(-1)
        best = max(all_labelings(len(rows)), key=lambda units: ctc(rows, units))
        assert transcript.text == " ".join(LABELS[unit] for unit in best)
        assert transcript.log_probability == pytest.approx(ctc(rows, best), abs=1e-5)


def scores_by_teacher_forcing(network, waveform, longest):
    """log p of each labeling followed by the end, by teacher forcing."""
    scores = {}
    for length in range(longest + 1):
        units = torch.tensor(list(product(range(2), repeat=length))).view(2**length, length).long()
        rows = network(waveform.expand(len(units), -1), None, units).logits.log_softmax(-1)
        targets = F.pad(units, (0, 1), value=LAST)
        totals = rows.gather(2, targets[..., None]).sum((1, 2))
        scores |= dict(zip(map(tuple, units.tolist()), totals.tolist(), strict=True))
    return scores


@pytest.mark.parametrize("weight", [0.0, 0.4])
@torch.no_grad()
def test_joint_beam_search_weighs_attention_ctc_and_length(weight):
    network = build(SpeechTranscriber, last=-5.0, ctc=True, decoder_depth=1)
    search = Search(ALL, 1.5, weight)
    expected = []
    for waveform, samples in zip(utterances(), SAMPLES, strict=True):
        utterance = waveform[:samples]
        rows = network(utterance[None], None, torch.zeros(1, 0, dtype=torch.long)).ctc_logits[0].log_softmax(-1)
        scores, totals = {}, {}
        for units, attention in scores_by_teacher_forcing(network, utterance, len(rows)).items():
            totals[units] = (1 - weight) * attention + (weight * ctc(rows, units) if weight else 0)
            scores[units] = totals[units] / ((5 + len(units) + 1) / 6) ** 1.5
        best = max(scores, key=scores.get)
        alone = transcribe_batch(network, LABELS, utterance[None], samples[None], search)[0]
        assert alone.text == " ".join(LABELS[unit] for unit in best)
        assert alone.log_probability == pytest.approx(totals[best], rel=1e-5)
        expected.append(alone.text)
    if weight:  # CTC bounds the length, so that transcripts do not depend on the rest of the batch
        assert [found.text for found in transcribe_batch(network, LABELS, utterances(), SAMPLES, search)] == expected


@pytest.mark.parametrize("search", [GREEDY, Search(8)], ids=["greedy", "beam"])
def test_a_unit_lasts_one_hop_around_the_center_of_each_of_its_tokens(search):
    network = build()
    network.head = Forced(path_rows([2, 0, 0, 2]))
    found = transcribe_batch(network, LABELS, utterances()[:1], torch.tensor([2800]), search)[0]
    # Token 1 is computed from samples 480 .. 1839, with its center at 1160; 480 samples around it begin at 920. Token 2
    # ends at 1880. At 16 kHz that is 57.5 ms and 117.5 ms.
    assert found.text == "go" and found.units == (Segment("go", 0.0575, 0.1175),)
    probabilities = torch.tensor(path_rows([2, 0, 0, 2])).softmax(-1)
    if search is GREEDY:
        assert found.log_probability == pytest.approx(4 * probabilities.max().log().item(), rel=1e-3)


def test_times_do_not_depend_on_padding():
    network = build()
    network.head = Forced(path_rows([0, 2, 1, 1]))
    found = transcribe_batch(network, LABELS, utterances(), SAMPLES, GREEDY)
    assert [transcript.text for transcript in found] == ["go stop", "go", "go stop"]
    assert [transcript.units[-1].end_s for transcript in found] == pytest.approx([0.1475, 0.0575, 0.1175])


def test_the_transcript_without_units_is_empty():
    for kind, options in ((SpeechRecognizer, {}), (SpeechTranscriber, {"ctc": True}), (SpeechTranscriber, {})):
        network = build(kind, **options)
        for head in (network.head, getattr(network, "ctc_head", None)):
            if head is not None:
                head.bias.data[LAST] = 1e6
        for search in (GREEDY, Search()):
            found = transcribe_batch(network, LABELS, utterances(), SAMPLES, search)
            assert [(transcript.text, transcript.units) for transcript in found] == [("", ())] * 3


class Scripted(SpeechTranscriber):
    """A decoder that outputs `script` and then the end."""

    script = [0, 0]

    def step(self, units, cache):
        length, cache = cache
        unit = [*self.script, LAST][min(length, len(self.script))]
        rows = 9.0 * F.one_hot(torch.full_like(units, unit), 3).double()
        return rows.log_softmax(-1), (length + 1, cache)

    def start(self, encoded, padding=None):
        return 0, super().start(encoded, padding)


def test_a_decoders_units_have_the_times_of_the_best_ctc_alignment():
    network = build(Scripted, ctc=True)
    network.ctc_head = Forced([[0, 0, 5.0], [4.0, 0, 0], [3.0, 3.1, 2.9], [4.0, 0, 0]])
    found = transcribe_batch(network, LABELS, utterances()[:1], torch.tensor([2800]), Search(1, ctc_weight=0.0))[0]
    # CTC alone would output "go stop go"; the best alignment of "go go" has a blank between.
    assert found.text == "go go"
    times = [time for unit in found.units for time in (unit.start_s, unit.end_s)]
    assert times == pytest.approx([0.0575, 0.0875, 0.1175, 0.1475])


def test_units_that_ctc_cannot_align_have_no_times():
    search = Search(1, ctc_weight=0.0)
    for network, samples in (
        (build(Scripted), 2800),
        (build(Scripted, ctc=True), 1840),
    ):  # no CTC head; only two tokens
        found = transcribe_batch(network, LABELS, utterances()[:1, :samples], torch.tensor([samples]), search)[0]
        assert (found.text, found.units) == ("go go", ())


def model(network) -> Model:
    return Model(network, LABELS, {"sample_rate_hz": 16_000, "units": "words"}, {}, {})


@pytest.fixture
def recordings(tmp_path):
    generator = numpy.random.default_rng(0)
    for name, rate, seconds in (("a.wav", 16_000, 1.0), ("b.flac", 44_100, 0.7), ("c.ogg", 22_050, 0.5)):
        soundfile.write(tmp_path / name, 0.1 * generator.standard_normal((int(rate * seconds), 2)), rate)
    return tmp_path


@pytest.mark.parametrize("kind", [SpeechRecognizer, SpeechTranscriber])
def test_recordings_of_any_rate_are_transcribed_in_order(recordings, kind):
    released = model(build(kind, dtype=torch.float32, last=-1.0))
    together = dict(transcribe(released, [recordings]))
    assert [path.name for path in together] == ["a.wav", "b.flac", "c.ogg"]
    if kind is SpeechRecognizer:  # a decoder's length limit depends on the longest of the batch
        by_two = dict(transcribe(released, [recordings / "c.ogg", recordings], batch=2))
        assert {path: by_two[path].text for path in by_two} == {path: together[path].text for path in together}
    samples, _ = soundfile.read(recordings / "a.wav", dtype="float32")
    mixed = (torch.from_numpy(samples.mean(1)) * 32768).round() / 32768
    alone = transcribe_batch(released.network, LABELS, mixed[None], torch.tensor([16_000]))[0]
    ((_, found),) = transcribe(released, [recordings / "a.wav"])
    assert found.text == alone.text and found.text


class OwnNetwork(nn.Module):
    """A network of the user's own that `vitspeech.Recognition` can train."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(400, len(LABELS) + 1)

    def forward(self, waveforms, lengths=None):
        return self.head(waveforms.unfold(1, 400, 400)), lengths // 400


def test_a_users_own_network_is_transcribed_by_its_task_without_times(recordings):
    torch.manual_seed(0)
    own = model(OwnNetwork().eval())
    with pytest.raises(ValueError, match="OwnNetwork does not transcribe"):
        next(transcribe(own, [recordings]))
    own.task = "vitspeech.Recognition"
    with torch.no_grad():
        own.network.head.bias[:] = torch.tensor([9.0, 0.0, 0.0])
    transcripts = [transcript for _, transcript in transcribe(own, [recordings])]
    assert [transcript.text for transcript in transcripts] == ["go"] * 3
    assert all(transcript.units == () and transcript.indices == (0,) for transcript in transcripts)


def test_a_recording_that_the_network_refuses_is_reported_and_the_others_are_transcribed(tmp_path):
    for name, seconds in (("a", 1.0), ("b", 3.0), ("c", 1.0)):
        soundfile.write(tmp_path / f"{name}.wav", numpy.full(int(16_000 * seconds), 0.1), 16_000)
    released, found = model(build(dtype=torch.float32, positions=LearnedPositions(50, 12))), []
    for path, transcript in transcribe(released, [tmp_path], on_error=lambda path, error: found.append(str(error))):
        found.append((path.name, transcript.indices))
    assert [name for name, _ in (found[0], found[2])] == ["a.wav", "c.wav"]
    assert found[1] == f"{tmp_path / 'b.wav'}: a sequence of 98 tokens is longer than the 50 positions"
    with pytest.raises(InputError, match=r"b\.wav: a sequence of 98 tokens"):
        list(transcribe(released, [tmp_path]))
