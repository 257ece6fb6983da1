"""Pictures of transcripts: what their panels hold, over which times, and that they are drawn."""

import math

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from PIL import Image

from vitspeech.checkpoint.folder import Model
from vitspeech.frontends import SpeechTokens
from vitspeech.inference.transcribe import Said, Search, transcribe
from vitspeech.models import SpeechClassifier, SpeechRecognizer, SpeechTranscriber, ViT
from vitspeech.plots import transcript as transcript_picture
from vitspeech.plots.style import BLUE, VERMILION
from vitspeech.plots.transcript import apart, draw_transcript, joined, shown_classes

RATE_HZ = 16_000
SECONDS = 1.3
WORDS = ["left", "right", "up", "$5 $6"]
CHARACTERS = [" ", "'", *"abcdefghijklmnopqrstuvwxyz"]
GREEDY = Search(beam=1, ctc_weight=0.0)


def released(kind=SpeechRecognizer, labels=WORDS, **arguments):
    torch.manual_seed(3)
    network = kind(len(labels), SpeechTokens(16, mels=20, stride=3), **nested(depth=1, heads=2, **arguments))
    return Model(network.eval(), labels, {"sample_rate_hz": RATE_HZ, "units": "words"}, {}, {})


def saying(model, *units):
    """The model with a decoder that says these units, then the end, whatever it is given to listen to."""
    network = model.network
    wanted = torch.tensor([*units, len(model.labels)])
    step = network.step

    def scripted(given, cache):
        scores, cache = step(given, cache)
        scripted.said += 1
        return scores.new_full(scores.shape, -30.0).index_fill(1, wanted[scripted.said - 1], -1e-3), cache

    scripted.said = 0
    network.step = scripted
    return model


def always(model, unit):
    """The model with a CTC head that prefers one class at every token."""
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
def drawn(recording, tmp_path, monkeypatch):
    """Draw a model's picture: its panels by what they are, the color bars left out, and the figure."""
    figures = []

    def made(**options):
        figures.append(Figure(**options))
        figures[-1].savefig = lambda *_, **__: None  # a file takes a second; what the panels hold is known without
        return figures[-1]

    monkeypatch.setattr(transcript_picture, "Figure", made)

    def draw(model, **options):
        draw_transcript(model, recording, tmp_path / "out.png", **options)
        figure = figures.pop()
        panels = {axes.get_ylabel() or "words": axes for axes in figure.axes if axes.get_label() != "<colorbar>"}
        return panels, figure

    return draw


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def values(axes):
    return numpy.asarray(axes.images[0].get_array())


def posterior(network, waveform):
    """By hand, from the layers: (T, C)."""
    with torch.no_grad():
        encoded = network.encoder(network.tokens(waveform[None]))[0]
        head = network.head if isinstance(network, SpeechRecognizer) else network.ctc_head
        powers = torch.exp(encoded @ head.weight.T + head.bias)
    return powers / powers.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("model", "search"),
    [
        (released(), None),
        (released(SpeechTranscriber), GREEDY),
        (released(SpeechTranscriber, CHARACTERS, ctc=True), None),
    ],
    ids=["ctc", "decoder", "both"],
)
def test_a_picture_is_drawn(model, search, recording, tmp_path):
    draw_transcript(model, recording, tmp_path / "out", search=search)
    with Image.open(tmp_path / "out") as picture:
        assert picture.format == "PNG" and picture.width == 1170 and 400 < picture.height < 3000
        assert numpy.asarray(picture.convert("L")).std() > 20


def test_ctcs_rows_are_its_probabilities_with_the_blank_last(drawn, waveform):
    model = released()
    panels, _ = drawn(model)
    assert list(panels) == ["words", "frequency (Hz), mel scale", "unit"]
    assert names(panels["unit"]) == [*WORDS, "blank"]
    assert values(panels["unit"]) == pytest.approx(posterior(model.network, waveform).T.numpy(), abs=1e-5)
    assert panels["unit"].images[0].get_clim() == (0, 1)


def test_every_panel_lasts_as_long_as_the_sound_and_is_as_wide_as_the_others(drawn):
    panels, figure = drawn(released(SpeechTranscriber, ctc=True), said=[Said("up", 0.2, 0.4)])
    figure.draw_without_rendering()
    assert len(panels) == 4
    for axes in panels.values():
        assert axes.get_xlim() == pytest.approx((0, SECONDS))
        place, other = axes.get_position(), panels["unit"].get_position()
        assert (place.x0, place.x1) == pytest.approx((other.x0, other.x1), abs=1e-6)
    bars = [axes.get_ylabel() for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bars == ["energy (dB)", "weight", "probability"] and panels["unit"].get_xlabel() == "time (s)"


def test_a_token_is_drawn_around_the_middle_of_its_samples(drawn):
    model = released()
    tokens, (panels, _) = model.network.tokens, drawn(model)
    left, right, bottom, top = panels["unit"].images[0].get_extent()
    count = values(panels["unit"]).shape[1]
    assert (right - left) / count * RATE_HZ == pytest.approx(tokens.hop_samples)
    assert left * RATE_HZ == pytest.approx((tokens.window_samples - tokens.hop_samples) / 2)
    assert (top, bottom) == (-0.5, 4.5)


def test_a_decoders_rows_are_what_it_says_and_the_end(drawn, waveform):
    model = saying(released(SpeechTranscriber, decoder_depth=2), 2, 3, 2)
    panels, figure = drawn(model, search=GREEDY)
    assert list(panels) == ["frequency (Hz), mel scale", "unit heard"]
    assert names(panels["unit heard"]) == ["up", "$5 $6", "up", "end"]
    assert figure.get_suptitle() == "chirp.wav: “up $5 $6 up”"


def test_cross_attention_is_the_last_blocks_mean_over_heads(drawn, waveform):
    model = saying(released(SpeechTranscriber, labels=["left", "right", "up"], decoder_depth=2), 2, 0)
    panels, _ = drawn(model, search=GREEDY)
    network, seen = model.network, []
    block = network.decoder.blocks[-1].cross_attention
    block.register_forward_hook(lambda module, given, _: seen.append(given))
    with torch.no_grad():
        encoded = network.encode(waveform[None])[0]
        network(waveform[None], None, torch.tensor([[2, 0]]))
        query = block.query(seen[0][0])[0].view(3, 2, 8)
        key = block.key(encoded)[0].view(-1, 2, 8)
    weights = (torch.einsum("lhk,thk->hlt", query, key) / 8**0.5).softmax(-1).mean(0)
    assert values(panels["unit heard"]) == pytest.approx(weights.numpy(), abs=1e-5)
    assert values(panels["unit heard"]).sum(1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("ctc", [True, False])
def test_nothing_heard_is_drawn_with_the_end_alone(ctc, drawn):
    panels, figure = drawn(saying(released(SpeechTranscriber, ctc=ctc)), search=GREEDY)
    assert names(panels["unit heard"]) == ["end"] and ("words" in panels) == ctc
    assert figure.get_suptitle() == "chirp.wav: nothing is heard"


def test_nothing_heard_by_ctc_is_all_missing(drawn):
    panels, figure = drawn(always(released(), 4), said=[Said("up", 0.1, 0.9), Said("left", 0.9, 1.2)])
    assert names(panels["words"]) == ["said", "heard"]
    assert [box.get_edgecolor() for box in panels["words"].patches] == [to_rgba(VERMILION)] * 2
    assert figure.get_suptitle().endswith("nothing is heard\nword errors: 2 in 2 (orange)")


def test_words_stand_where_the_transcript_has_them_and_what_is_wrong_is_orange(drawn, recording):
    model = always(released(), 3)
    ((_, transcript),) = transcribe(model, [recording])
    assert transcript.text == "$5 $6"
    panels, figure = drawn(model, said=[Said("$5 $6", 0.25, 0.75), Said("up", 0.75, 1.25)])
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


def test_without_ctc_words_have_no_times_but_errors_are_known(drawn):
    model = saying(released(SpeechTranscriber), 1)
    panels, figure = drawn(model, search=GREEDY, said=[Said("right", 0.1, 0.9)])
    assert names(panels["words"]) == ["said"] and figure.get_suptitle().endswith("\nword errors: 0 in 1")


def test_what_ctc_cannot_say_has_no_times(drawn):
    model = saying(released(SpeechTranscriber, ctc=True), *[1] * 30)  # of 41 tokens, and 29 blanks between
    panels, _ = drawn(model, search=GREEDY)
    assert "words" not in panels and names(panels["unit heard"]) == ["right"] * 30 + ["end"]


def test_characters_are_joined_to_words_and_a_space_is_a_sign(drawn):
    said = [Said(letter, place / 10, place / 10 + 0.05) for place, letter in enumerate(" go  up ")]
    assert joined(said, CHARACTERS) == [Said("go", 0.1, 0.25), Said("up", 0.5, 0.65)]
    assert joined(said, ["go", "up"]) == said and joined([], CHARACTERS) == []
    units = [CHARACTERS.index(letter) for letter in "go  up"]
    panels, figure = drawn(saying(released(SpeechTranscriber, CHARACTERS), *units), search=GREEDY)
    assert names(panels["unit heard"]) == ["g", "o", "␣", "␣", "u", "p", "end"]
    assert "“go up”" in figure.get_suptitle()


def test_of_many_units_those_are_shown_that_are_likely_in_the_order_of_their_peaks():
    posterior = torch.full((7, 24), 0.001)
    posterior[5, 2], posterior[1, 11], posterior[3, 17], posterior[2, 20] = 0.9, 0.05, 0.5, 0.049
    assert shown_classes(posterior) == [11, 17, 2, 23]
    assert shown_classes(posterior[:, :16]) == list(range(16))
    many = torch.rand(11, 62, generator=torch.Generator().manual_seed(0)) / 2 + 0.05
    shown = shown_classes(many)
    peaks = many[:, :61].max(0).values
    assert len(shown) == 21 and shown[-1] == 61
    assert set(shown[:-1]) == set(peaks.topk(20).indices.tolist())


def test_each_of_many_units_has_its_own_row(drawn, waveform):
    model = released(labels=[f"word{number}" for number in range(17)])
    model.network.head.weight.data *= 8
    panels, _ = drawn(model)
    shares = posterior(model.network, waveform)
    shown = [[*model.labels, "blank"].index(name) for name in names(panels["unit"])]
    assert 3 < len(shown) < 18 and shown != sorted(shown)
    assert values(panels["unit"]) == pytest.approx(shares.T[shown].numpy(), abs=1e-5)
    peaks = shares.argmax(0)[shown[:-1]].tolist()
    assert peaks == sorted(peaks)


def test_names_are_never_written_over_one_another():
    marks = [(Said("right", start, start + 0.04), BLUE) for start in (0.1, 0.2, 0.3, 0.9)]
    lanes = apart("heard", marks, letter_s=0.03)
    assert [name for name, _ in lanes] == ["heard", "", ""]
    assert [[word.start_s for word, _ in lane] for _, lane in lanes] == [[0.1, 0.9], [0.2], [0.3]]
    wide = [(Said("up", start, start + 0.1), BLUE) for start in (0.0, 0.1, 0.2)]
    assert apart("said", wide, letter_s=0.03) == [("said", wide)]


def test_more_rows_than_there_is_room_for_are_named_every_so_many(drawn):
    model = saying(released(SpeechTranscriber), *[0, 1, 2] * 11)
    panels, figure = drawn(model, search=GREEDY)
    assert len(names(panels["unit heard"])) == 34
    assert figure.get_figheight() < 12


def test_a_model_of_labels_is_refused(recording, tmp_path):
    network = SpeechClassifier(4, SpeechTokens(16, mels=20), encoder={"depth": 1, "heads": 2}).eval()
    with pytest.raises(ValueError, match="SpeechClassifier gives labels, not transcripts"):
        draw_transcript(Model(network, WORDS, {"sample_rate_hz": RATE_HZ}, {}, {}), recording, tmp_path / "out.png")
    with pytest.raises(ValueError, match="ViT gives labels, not transcripts"):
        vit = ViT(4, image=8, patch=4, width=8, encoder={"depth": 1, "heads": 2})
        draw_transcript(Model(vit, WORDS, {"image": 8}, {}, {}), recording, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()


def test_a_recording_or_a_folder_that_is_not_there_is_named(recording, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.wav"):
        draw_transcript(released(), tmp_path / "missing.wav", tmp_path / "out.png")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        draw_transcript(released(), recording, tmp_path / "nowhere" / "out.png")


def test_a_recording_too_short_for_a_token_is_named_with_its_length(tmp_path):
    model = released()
    model.network.tokens.window_samples = 1601
    soundfile.write(tmp_path / "short.wav", numpy.full(1600, 0.1), RATE_HZ)
    with pytest.raises(ValueError, match=r"short\.wav: 1600 samples are below the 1601 of one token"):
        draw_transcript(model, tmp_path / "short.wav", tmp_path / "out.png")
