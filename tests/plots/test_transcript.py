"""The figures of transcripts: the contents of their panels, their time axes, and their files."""

import math
from itertools import pairwise

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from matplotlib.colors import to_rgb
from PIL import Image

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.decoding.unit_runs import Segment
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.label_stream import words_of_frames
from vitspeech.inference.transcribe import transcribe
from vitspeech.models import SpeechClassifier, SpeechLabeler, SpeechRecognizer, SpeechTranscriber
from vitspeech.plots import spectrogram as heat_map
from vitspeech.plots.style import BLUE, VERMILION
from vitspeech.plots.transcript import classes_to_draw, draw_transcript, without_overlap

RATE_HZ = 16_000
SECONDS = 1.3
WORDS = ["left", "right", "up", "$5 $6"]
CHARACTERS = [" ", "'", *"abcdefghijklmnopqrstuvwxyz"]
GREEDY = Search(beam=1, ctc_weight=0.0)


def released(kind=SpeechRecognizer, labels=WORDS, **arguments):
    torch.manual_seed(3)
    network = kind(len(labels), SpeechFrontend(16, mels=20, stride=3), **nested(depth=1, heads=2, **arguments))
    return Model(network.eval(), labels, {"sample_rate_hz": RATE_HZ, "units": "words"}, {}, {})


def with_output(model, *units):
    """The model with a decoder that outputs these units and then the end, whatever its input."""
    network = model.network
    script = iter(torch.tensor([*units, len(model.labels)]))
    step = network.step

    def scripted(previous, cache):
        scores, cache = step(previous, cache)
        return scores.new_full(scores.shape, -30.0).index_fill(1, next(script), -1e-3), cache

    network.step = scripted
    return model


def always(model, unit):
    """The model with a CTC head whose most probable class is the same at every token."""
    head = model.network.head if isinstance(model.network, SpeechRecognizer) else model.network.ctc_head
    torch.nn.init.zeros_(head.bias)
    head.bias.data[unit] = 20.0
    return model


@pytest.fixture
def recording(tmp_path):
    time_s = numpy.arange(int(SECONDS * RATE_HZ)) / RATE_HZ
    chirp = 0.3 * numpy.sin(2 * math.pi * (200 + 900 * time_s) * time_s) * (abs(time_s - 0.5) < 0.2)
    soundfile.write(tmp_path / "chirp.wav", chirp, RATE_HZ)
    return tmp_path / "chirp.wav"


@pytest.fixture
def waveform(recording):
    return torch.from_numpy(soundfile.read(recording, dtype="float32")[0])


@pytest.fixture
def drawn(recording, tmp_path, unsaved):
    """Draw a model's figure; returns its panels by name, without color bars, and the figure."""

    def draw(model, **options):
        draw_transcript(model, recording, tmp_path / "out.png", **options)
        figure = unsaved.pop()
        panels = {axes.get_ylabel() or "words": axes for axes in figure.axes if axes.get_label() != "<colorbar>"}
        return panels, figure

    return draw


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def values(axes):
    return numpy.asarray(axes.images[0].get_array())


def posterior(network, waveform):
    """CTC's probabilities, computed from the layers: (T, C)."""
    with torch.no_grad():
        encoded = network.encoder(network.tokens(waveform[None]))[0]
        head = network.head if isinstance(network, SpeechRecognizer) else network.ctc_head
        powers = torch.exp(encoded @ head.weight.T + head.bias)
    return powers / powers.sum(-1, keepdim=True)


def test_a_labeler_has_the_probability_of_each_label_in_each_frame(drawn, waveform):
    torch.manual_seed(0)
    network = SpeechLabeler(3, SpeechFrontend(8, mels=20, stride=4), {"depth": 1, "heads": 2, "right": 1}).eval()
    network.initialize(waveform[None])
    for parameter in network.head.parameters():  # the frames of a token get the same label
        rows = parameter.data.view(4, 3, -1)
        rows[1:] = 20 * rows[0]
        rows[0] = rows[1]
    model = Model(network, ["go", "stop"], {"sample_rate_hz": RATE_HZ}, {}, {})
    panels, figure = drawn(model)
    with torch.no_grad():
        logits = network.forward_frames(waveform[None])[0]
    words, probabilities = words_of_frames(network, model.labels, logits), logits.softmax(-1)
    assert words and figure.get_suptitle() == f"chirp.wav: “{' '.join(word.label for word in words)}”"
    axes = panels["label"]
    assert names(axes) == ["go", "stop", "(none)"]
    assert values(axes) == pytest.approx(probabilities.T.numpy(), abs=1e-5)
    first_s, frame_s = network.first_frame_ms / 1000, network.frame_ms / 1000
    assert axes.images[0].get_extent()[:2] == pytest.approx((first_s, first_s + frame_s * len(probabilities)))
    boxes = [(box.get_x(), box.get_x() + box.get_width()) for box in panels["words"].patches]
    assert boxes == [pytest.approx((word.start_s, word.end_s)) for word in words]


@pytest.mark.parametrize(
    ("model", "search"),
    [
        (released(), None),
        (released(SpeechTranscriber), GREEDY),
        (released(SpeechTranscriber, CHARACTERS, ctc=True), None),
    ],
    ids=["ctc", "decoder", "both"],
)
def test_a_figure_is_drawn(model, search, recording, tmp_path):
    draw_transcript(model, recording, tmp_path / "out", search=search)
    with Image.open(tmp_path / "out") as figure:
        assert figure.format == "PNG" and figure.width == 1170 and 400 < figure.height < 3000
        assert numpy.asarray(figure.convert("L")).std() > 20


def test_the_ctc_map_holds_the_probabilities_with_the_blank_last(drawn, waveform):
    model = released()
    panels, _ = drawn(model)
    assert list(panels) == ["words", "frequency (Hz), mel scale", "unit"]
    assert names(panels["unit"]) == [*WORDS, "blank"]
    assert values(panels["unit"]) == pytest.approx(posterior(model.network, waveform).T.numpy(), abs=1e-5)
    assert panels["unit"].images[0].get_clim() == (0, 1)


def test_all_panels_cover_the_recording_and_have_one_width(drawn):
    panels, figure = drawn(released(SpeechTranscriber, ctc=True), reference=[Segment("up", 0.2, 0.4)])
    figure.draw_without_rendering()
    assert len(panels) == 4
    for axes in panels.values():
        assert axes.get_xlim() == pytest.approx((0, SECONDS))
        place, other = axes.get_position(), panels["unit"].get_position()
        assert (place.x0, place.x1) == pytest.approx((other.x0, other.x1), abs=1e-6)
    bars = [axes.get_ylabel() for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bars == ["energy (dB)", "weight", "probability"] and panels["unit"].get_xlabel() == "time (s)"


def test_a_token_is_drawn_at_the_center_of_its_samples(drawn):
    model = released()
    tokens, (panels, _) = model.network.tokens, drawn(model)
    left, right, bottom, top = panels["unit"].images[0].get_extent()
    count = values(panels["unit"]).shape[1]
    assert (right - left) / count * RATE_HZ == pytest.approx(tokens.hop_samples)
    assert left * RATE_HZ == pytest.approx((tokens.window_samples - tokens.hop_samples) / 2)
    assert (top, bottom) == (-0.5, 4.5)


def test_the_decoders_map_has_a_row_per_output_unit_and_one_for_the_end(drawn, waveform):
    model = with_output(released(SpeechTranscriber, decoder_depth=2), 2, 3, 2)
    panels, figure = drawn(model, search=GREEDY)
    assert list(panels) == ["frequency (Hz), mel scale", "output unit"]
    assert names(panels["output unit"]) == ["up", "$5 $6", "up", "end"]
    assert figure.get_suptitle() == "chirp.wav: “up $5 $6 up”"


def test_the_decoders_map_is_the_last_blocks_cross_attention_averaged_over_heads(drawn, waveform):
    model = with_output(released(SpeechTranscriber, labels=["left", "right", "up"], decoder_depth=2), 2, 0)
    panels, _ = drawn(model, search=GREEDY)
    network, inputs = model.network, []
    block = network.decoder.blocks[-1].cross_attention
    block.register_forward_hook(lambda module, args, _: inputs.append(args))
    with torch.no_grad():
        encoded = network.encode(waveform[None])[0]
        network(waveform[None], None, torch.tensor([[2, 0]]))
        query = block.query(inputs[0][0])[0].view(3, 2, 8)
        key = block.key(encoded)[0].view(-1, 2, 8)
    weights = (torch.einsum("lhk,thk->hlt", query, key) / 8**0.5).softmax(-1).mean(0)
    assert values(panels["output unit"]) == pytest.approx(weights.numpy(), abs=1e-5)
    assert values(panels["output unit"]).sum(1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("ctc", [True, False])
def test_an_empty_transcript_is_drawn_with_only_the_end(ctc, drawn):
    panels, figure = drawn(with_output(released(SpeechTranscriber, ctc=ctc)), search=GREEDY)
    assert names(panels["output unit"]) == ["end"] and ("words" in panels) == ctc
    assert figure.get_suptitle() == "chirp.wav: no words"


def test_words_are_drawn_at_their_times_and_errors_in_orange(drawn, recording):
    model = always(released(), 3)
    ((_, transcript),) = transcribe(model, [recording])
    assert transcript.text == "$5 $6"
    panels, figure = drawn(model, reference=[Segment("$5 $6", 0.25, 0.75), Segment("up", 0.75, 1.25)])
    boxes = [(box.get_x(), box.get_x() + box.get_width()) for box in panels["words"].patches]
    word = transcript.units[0]
    assert boxes == [pytest.approx(pair) for pair in ((0.25, 0.75), (0.75, 1.25), (word.start_s, word.end_s))]
    assert [box.get_edgecolor()[:3] for box in panels["words"].patches] == [
        to_rgb(c) for c in ("0.45", VERMILION, BLUE)
    ]
    assert [text.get_text() for text in panels["words"].texts] == ["$5 $6", "up", "$5 $6"]
    assert [text.get_weight() for text in panels["words"].texts] == ["normal", "bold", "normal"]
    assert figure.get_suptitle().endswith("\nword errors: 1 in 2 (orange)")
    edges = [line.get_xdata()[0] for line in panels["unit"].lines]
    assert edges == [0.25, 0.75, 0.75, 1.25]


def test_a_text_that_ctc_cannot_align_has_no_times(drawn):
    model = with_output(released(SpeechTranscriber, ctc=True), *[1] * 30)  # of 41 tokens, and 29 blanks between
    panels, _ = drawn(model, search=GREEDY)
    assert "words" not in panels and names(panels["output unit"]) == ["right"] * 30 + ["end"]


def test_characters_are_joined_in_the_title_and_spaces_are_visible(drawn):
    units = [CHARACTERS.index(letter) for letter in "go  up"]
    panels, figure = drawn(with_output(released(SpeechTranscriber, CHARACTERS), *units), search=GREEDY)
    assert names(panels["output unit"]) == ["g", "o", "␣", "␣", "u", "p", "end"]
    assert "“go up”" in figure.get_suptitle()


def test_a_map_of_too_many_characters_names_its_words(drawn, monkeypatch):
    monkeypatch.setattr(heat_map, "MAX_MAP_INCHES", 3)
    text = "as you know and as i have given you"
    units = [CHARACTERS.index(letter) for letter in text]
    panels, figure = drawn(with_output(released(SpeechTranscriber, CHARACTERS), *units), search=GREEDY)
    figure.draw_without_rendering()
    axes = panels["output unit"]
    shown = names(axes)
    assert shown[0] == "as" and set(shown) <= {*text.split(), "end"} and len(shown) >= 7
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(below.y1 <= above.y0 + 1 for above, below in pairwise(boxes))
    first = axes.get_yticks()[shown.index("know")]
    assert first == text.index("know") + 1.5  # the middle of its four rows


def test_of_many_units_the_probable_ones_are_drawn_in_the_order_of_their_peaks():
    posterior = torch.full((7, 24), 0.001)
    posterior[5, 2], posterior[1, 11], posterior[3, 17], posterior[2, 20] = 0.9, 0.05, 0.5, 0.049
    assert classes_to_draw(posterior) == [11, 17, 2, 23]
    assert classes_to_draw(posterior[:, :16]) == list(range(16))
    many = torch.rand(11, 62, generator=torch.Generator().manual_seed(0)) / 2 + 0.05
    classes = classes_to_draw(many)
    peaks = many[:, :61].max(0).values
    assert len(classes) == 21 and classes[-1] == 61
    assert set(classes[:-1]) == set(peaks.topk(20).indices.tolist())


def test_names_of_words_never_overlap():
    marks = [(Segment("right", start, start + 0.04), BLUE) for start in (0.1, 0.2, 0.3, 0.9)]
    lanes = without_overlap("output", marks, letter_s=0.03)
    assert [name for name, _ in lanes] == ["output", "", ""]
    assert [[word.start_s for word, _ in lane] for _, lane in lanes] == [[0.1, 0.9], [0.2], [0.3]]
    wide = [(Segment("up", start, start + 0.1), BLUE) for start in (0.0, 0.1, 0.2)]
    assert without_overlap("reference", wide, letter_s=0.03) == [("reference", wide)]


def test_a_model_without_transcripts_is_refused(recording, tmp_path):
    network = SpeechClassifier(4, SpeechFrontend(16, mels=20), encoder={"depth": 1, "heads": 2}).eval()
    with pytest.raises(ValueError, match="SpeechClassifier can't be drawn: it is no SpeechRecognizer"):
        draw_transcript(Model(network, WORDS, {"sample_rate_hz": RATE_HZ}, {}, {}), recording, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()


def test_a_recording_shorter_than_a_token_is_named_with_its_length(tmp_path, monkeypatch):
    model = released()
    monkeypatch.setattr(type(model.network.tokens), "window_samples", 1601)
    soundfile.write(tmp_path / "short.wav", numpy.full(1600, 0.1), RATE_HZ)
    with pytest.raises(ValueError, match=r"short\.wav: 1600 samples are fewer than the 1601 of one token"):
        draw_transcript(model, tmp_path / "short.wav", tmp_path / "out.png")
