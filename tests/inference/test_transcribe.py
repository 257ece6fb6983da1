"""From utterances to transcripts: the search against every labeling there is, and times against their definition.

A token of the networks here sees 1,360 samples (85 ms) every 480 (30 ms).
"""

from itertools import groupby, product

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from torch import nn
from torch.nn import functional as F

import vitspeech
from vitspeech.checkpoint.folder import Model
from vitspeech.frontends import SpeechTokens
from vitspeech.inference.transcribe import Said, Search, is_transcribing, transcribe, transcribed
from vitspeech.models import SpeechLabeler, SpeechRecognizer, SpeechTranscriber

LABELS = ["go", "stop"]
LAST = 2  # the class of the blank, and of the end
SAMPLES = torch.tensor([2800, 1360, 2320])
TOKENS = [4, 1, 3]
GREEDY = Search(beam=1)
EVERYTHING = 500  # hypotheses: more than there are


def made(kind=SpeechRecognizer, units=2, dtype=torch.float64, last=0.0, **arguments):
    torch.manual_seed(3)
    network = kind(units, SpeechTokens(12, mels=17, stride=3), **nested(depth=1, heads=3, **arguments)).to(dtype).eval()
    network.initialize(torch.randn(5, 16_000, dtype=dtype))
    for head in (network.head, getattr(network, "ctc_head", None)):
        if head is not None:
            head.weight.data *= 9  # surer than at random, and as much of one as of another
            head.bias.data.zero_()[LAST] = last
    return network


def utterances(seed=1):
    return torch.randn(3, 2800, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Forced(nn.Module):
    """A head that gives its rows whatever it is given."""

    def __init__(self, rows):
        super().__init__()
        self.rows = torch.tensor(rows, dtype=torch.float64)

    def forward(self, encoded):
        return self.rows[: encoded.shape[1]].expand(len(encoded), -1, -1)


def path_rows(path, classes=3):
    """Rows whose likeliest classes are the path's."""
    return (8.0 * F.one_hot(torch.tensor(path), classes)).tolist()


def texts(network, search, labels=LABELS, seed=1):
    return [found.text for found in transcribed(network, labels, utterances(seed), SAMPLES, search)]


@pytest.mark.parametrize("seed", range(5))
@torch.no_grad()
def test_greedy_search_is_the_likeliest_class_of_each_token_collapsed(seed):
    network = made()
    expected = []
    for waveform, samples in zip(utterances(seed), SAMPLES, strict=True):
        path = network(waveform[None, :samples])[0][0].argmax(-1).tolist()
        expected.append(" ".join(LABELS[unit] for unit, _ in groupby(path) if unit != LAST))
    assert texts(network, GREEDY, seed=seed) == expected


def all_labelings(longest):
    return [units for length in range(longest + 1) for units in product(range(2), repeat=length)]


def ctc(rows, units):
    """log p(units) by torch's own sum over all alignments; -inf where there is none."""
    if not units:
        return rows[:, LAST].sum().item()
    counts = [torch.tensor([len(rows)]), torch.tensor([len(units)])]
    return -F.ctc_loss(rows[:, None], torch.tensor([units]), *counts, LAST, "sum").item()


@pytest.mark.parametrize("seed", range(5))
@torch.no_grad()
def test_a_beam_that_holds_everything_finds_the_most_probable_labeling(seed):
    network = made()
    found = transcribed(network, LABELS, utterances(seed), SAMPLES, Search(beam=EVERYTHING))
    for transcript, waveform, samples in zip(found, utterances(seed), SAMPLES, strict=True):
        rows = network(waveform[None, :samples])[0][0].log_softmax(-1)
        best = max(all_labelings(len(rows)), key=lambda units: ctc(rows, units))
        assert transcript.text == " ".join(LABELS[unit] for unit in best)
        assert transcript.log_probability == pytest.approx(ctc(rows, best), abs=1e-5)


def said_by_teacher_forcing(network, waveform, longest):
    """log p of every labeling and the end behind it, as a decoder finds them."""
    found = {}
    for length in range(longest + 1):
        units = torch.tensor(list(product(range(2), repeat=length))).view(2**length, length).long()
        rows = network(waveform.expand(len(units), -1), None, units).logits.log_softmax(-1)
        wanted = F.pad(units, (0, 1), value=LAST)
        totals = rows.gather(2, wanted[..., None]).sum((1, 2))
        found |= dict(zip(map(tuple, units.tolist()), totals.tolist(), strict=True))
    return found


@pytest.mark.parametrize("weight", [0.0, 0.4])
@pytest.mark.parametrize("penalty", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(2))
@torch.no_grad()
def test_a_decoders_beam_weighs_attention_ctc_and_length(weight, penalty, seed):
    network = made(SpeechTranscriber, last=-5.0, ctc=True, decoder_depth=1)
    search = Search(EVERYTHING, penalty, weight)
    expected = []
    for waveform, samples in zip(utterances(seed), SAMPLES, strict=True):
        sound = waveform[:samples]
        rows = network(sound[None], None, torch.zeros(1, 0, dtype=torch.long)).ctc_logits[0].log_softmax(-1)
        scores, totals = {}, {}
        for units, attention in said_by_teacher_forcing(network, sound, len(rows)).items():
            totals[units] = (1 - weight) * attention + (weight * ctc(rows, units) if weight else 0)
            scores[units] = totals[units] / ((5 + len(units) + 1) / 6) ** penalty
        best = max(scores, key=scores.get)
        alone = transcribed(network, LABELS, sound[None], samples[None], search)[0]
        assert alone.text == " ".join(LABELS[unit] for unit in best)
        assert alone.log_probability == pytest.approx(totals[best], rel=1e-5)
        expected.append(alone.text)
    if weight:  # what CTC has no tokens for is impossible, so that nobody beside an utterance changes what it says
        assert texts(network, search, seed=seed) == expected


@pytest.mark.parametrize("arguments", [{}, {"ctc": True}])
@torch.no_grad()
def test_a_decoders_greedy_search_says_the_likeliest_unit_after_those_before_it(arguments):
    network, heard = made(SpeechTranscriber, last=-2.0, **arguments), set()
    for waveform in torch.cat((utterances(0), utterances(2))):
        said = []
        while len(said) < 4:
            unit = int(network(waveform[None], None, torch.tensor([said], dtype=torch.long)).logits[0, -1].argmax())
            if unit == LAST:
                break
            said.append(unit)
        found = transcribed(network, LABELS, waveform[None], torch.tensor([2800]), Search(1, ctc_weight=0.0))[0]
        assert found.text == " ".join(LABELS[unit] for unit in said)
        heard.add(found.text)
    assert len(heard) > 2


@pytest.mark.parametrize("search", [GREEDY, Search()], ids=["greedy", "beam"])
def test_a_unit_lasts_a_hop_around_the_center_of_each_token_that_says_it(search):
    network = made()
    network.head = Forced(path_rows([2, 0, 0, 2]))
    found = transcribed(network, LABELS, utterances()[:1], torch.tensor([2800]), search)[0]
    # Token 1 sees samples 480 .. 1839, with its center at 1160; 480 samples around it begin at 920. Token 2 ends at
    # 1880. At 16 kHz that is 57.5 ms and 117.5 ms.
    assert found.text == "go" and found.units == (Said("go", 0.0575, 0.1175),)
    shares = torch.tensor(path_rows([2, 0, 0, 2])).softmax(-1)
    if search is GREEDY:
        assert found.log_probability == pytest.approx(4 * shares.max().log().item(), rel=1e-3)


@pytest.mark.parametrize("search", [GREEDY, Search()], ids=["greedy", "beam"])
def test_a_unit_twice_has_its_times_twice(search):
    network = made()
    network.head = Forced(path_rows([1, 2, 1, 1]))
    found = transcribed(network, LABELS, utterances()[:1], torch.tensor([2800]), search)[0]
    assert [said.label for said in found.units] == ["stop", "stop"]
    times = [time for said in found.units for time in (said.start_s, said.end_s)]
    assert times == pytest.approx([0.0275, 0.0575, 0.0875, 0.1475])


def test_times_do_not_depend_on_padding():
    network = made()
    network.head = Forced(path_rows([0, 2, 1, 1]))
    found = transcribed(network, LABELS, utterances(), SAMPLES, GREEDY)
    assert [transcript.text for transcript in found] == ["go stop", "go", "go stop"]
    assert [transcript.units[-1].end_s for transcript in found] == pytest.approx([0.1475, 0.0575, 0.1175])


def test_spaces_among_characters_make_words():
    network, labels = made(units=4), [" ", "'", "a", "b"]
    network.head = Forced(path_rows([0, 2, 3, 4, 0, 4, 0, 2, 1, 0], classes=5))
    found = transcribed(network, labels, torch.randn(1, 9 * 480 + 1360).double(), torch.tensor([5680]), GREEDY)[0]
    assert found.text == "ab a'"
    assert "".join(said.label for said in found.units) == " ab  a' "


def test_a_transcript_of_nothing_is_empty():
    for kind, options in ((SpeechRecognizer, {}), (SpeechTranscriber, {"ctc": True}), (SpeechTranscriber, {})):
        network = made(kind, **options)
        for head in (network.head, getattr(network, "ctc_head", None)):
            if head is not None:
                head.bias.data[LAST] = 1e6
        for search in (GREEDY, Search()):
            found = transcribed(network, LABELS, utterances(), SAMPLES, search)
            assert [(transcript.text, transcript.units) for transcript in found] == [("", ())] * 3


class Says(SpeechTranscriber):
    """A decoder that says `said` and then the end."""

    said = [0, 0]

    def step(self, units, cache):
        counted, cache = cache
        wanted = [*self.said, LAST][min(counted, len(self.said))]
        rows = 9.0 * F.one_hot(torch.full_like(units, wanted), 3).double()
        return rows.log_softmax(-1), (counted + 1, cache)

    def start(self, encoded, padding=None):
        return 0, super().start(encoded, padding)


def test_what_a_decoder_says_has_the_times_of_ctcs_best_alignment():
    network = made(Says, ctc=True)
    network.ctc_head = Forced([[0, 0, 5.0], [4.0, 0, 0], [3.0, 3.1, 2.9], [4.0, 0, 0]])
    found = transcribed(network, LABELS, utterances()[:1], torch.tensor([2800]), Search(1, ctc_weight=0.0))[0]
    # By itself CTC would say "go stop go"; of the ways to say "go go" a blank between is the best.
    assert found.text == "go go"
    times = [time for said in found.units for time in (said.start_s, said.end_s)]
    assert times == pytest.approx([0.0575, 0.0875, 0.1175, 0.1475])


def test_what_ctc_can_not_align_has_no_times():
    search = Search(1, ctc_weight=0.0)
    for network, samples in ((made(Says), 2800), (made(Says, ctc=True), 1840)):  # no CTC head, and two tokens alone
        found = transcribed(network, LABELS, utterances()[:1, :samples], torch.tensor([samples]), search)[0]
        assert (found.text, found.units) == ("go go", ())


@pytest.mark.parametrize(
    "numbers", [{"beam": 0}, {"length_penalty": -0.1}, {"ctc_weight": -0.1}, {"ctc_weight": 1.1}, {"beam": -3}]
)
def test_a_search_that_can_not_be_names_its_numbers(numbers):
    ((name, value),) = numbers.items()
    with pytest.raises(ValueError, match=f"{name}={value}.*beam is at least 1, length_penalty at least 0, ctc_weight"):
        Search(**numbers)


def model(network) -> Model:
    return Model(network, LABELS, {"sample_rate_hz": 16_000, "units": "words"}, {}, {})


@pytest.fixture
def recordings(tmp_path):
    generator = numpy.random.default_rng(0)
    for name, rate, seconds in (("a.wav", 16_000, 1.0), ("b.flac", 44_100, 0.7), ("c.ogg", 22_050, 0.5)):
        soundfile.write(tmp_path / name, 0.1 * generator.standard_normal((int(rate * seconds), 2)), rate)
    return tmp_path


@pytest.mark.parametrize("kind", [SpeechRecognizer, SpeechTranscriber])
def test_recordings_of_any_rate_are_written_down_in_their_order(recordings, kind):
    heard = model(made(kind, dtype=torch.float32, last=-1.0))
    together = dict(transcribe(heard, [recordings]))
    assert [path.name for path in together] == ["a.wav", "b.flac", "c.ogg"]
    if kind is SpeechRecognizer:  # a decoder may go on for as long as the longest of a batch
        by_two = dict(transcribe(heard, [recordings / "c.ogg", recordings], batch=2))
        assert {path: by_two[path].text for path in by_two} == {path: together[path].text for path in together}
    samples, _ = soundfile.read(recordings / "a.wav", dtype="float32")
    mixed = (torch.from_numpy(samples.mean(1)) * 32768).round() / 32768
    alone = transcribed(heard.network, LABELS, mixed[None], torch.tensor([16_000]))[0]
    ((_, found),) = transcribe(heard, [recordings / "a.wav"])
    assert found.text == alone.text and found.text


def test_what_gives_transcripts_is_told_from_what_gives_labels(recordings, finished_speech_run):
    labeler = made(SpeechLabeler)
    assert is_transcribing(made()) and is_transcribing(made(SpeechTranscriber)) and not is_transcribing(labeler)
    with pytest.raises(ValueError, match=r"SpeechLabeler gives labels, not transcripts; use vitspeech\.stream"):
        next(transcribe(model(labeler), [recordings]))
    with pytest.raises(ValueError, match=r"SpeechClassifier gives labels, not transcripts; use vitspeech\.predict"):
        next(transcribe(vitspeech.load(finished_speech_run), [recordings]))


def test_a_broken_recording_is_named(recordings):
    (recordings / "d.wav").write_bytes(b"RIFF")
    with pytest.raises(ValueError, match=r"d\.wav: "):
        list(transcribe(model(made(dtype=torch.float32)), [recordings]))
