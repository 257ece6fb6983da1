"""Joint recognition: trained like an encoder-decoder with CTC, of which a recognizer that streams is left."""

import pytest
import torch
import yaml
from arguments import nested
from tiny import TINY_TRANSCRIBER, noise
from torch.testing import assert_close

import vitspeech
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import Seq2Seq, SpeechRecognizer, SpeechTranscriber
from vitspeech.tasks import JointRecognition, Transcription
from vitspeech.training.train import train

LABELS = ["go", "stop", "left"]
SAID, LENGTHS = [[0], [1, 1], [2, 0, 2]], [4003, 9001, 6007]


def transcriber(**options) -> SpeechTranscriber:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    return SpeechTranscriber(3, tokens, **nested(depth=2, heads=3, decoder_depth=1, **options)).double().eval()


def task(network: SpeechTranscriber, kind: type = JointRecognition, **options) -> Transcription:
    made = kind(network, **options).eval()
    made.labels = LABELS
    return made


@pytest.mark.parametrize("window", [{}, {"left": 3, "right": [2, 0]}])
@torch.no_grad()
def test_the_recognizer_is_the_encoder_with_its_ctc_head(window):
    network, speech = transcriber(ctc=True, **window), noise(SAID, LENGTHS)
    recognizer = network.recognizer()
    assert type(recognizer) is SpeechRecognizer
    logits, tokens = recognizer(speech.waveforms, speech.lengths)
    expected = network(speech.waveforms, speech.lengths, speech.units)
    assert_close(logits, expected.ctc_logits, atol=0, rtol=0)
    assert tokens.tolist() == expected.tokens.tolist()
    ahead = 2 * 30 if window else None  # the first block looks two tokens of 30 ms ahead, the second none
    assert recognizer.context_ms["look_ahead_ms"] == ahead
    assert (recognizer.context_ms["delay_ms"] is None) == (ahead is None)


@torch.no_grad()
def test_the_loss_is_that_of_transcription_and_transcripts_are_those_of_ctc():
    network, speech = transcriber(ctc=True), noise(SAID, LENGTHS)
    network.ctc_head.weight.data *= 20  # surer than at random, so that there are units between blanks
    joint = task(network, ctc_weight=0.4, label_smoothing=0.2)
    both = task(network, Transcription, ctc_weight=0.4, label_smoothing=0.2)
    plain = both.loss(speech).item()
    assert joint.loss(speech).item() == plain
    assert joint.train().loss(speech).item() == both.train().loss(speech).item() != plain  # smoothed in training only
    joint.eval(), both.eval()
    loss, units = joint.loss_and_transcripts(*speech)
    assert loss.item() == both.loss_and_transcripts(*speech)[0].item()
    recognizer = vitspeech.Recognition(network.recognizer()).eval()
    recognizer.labels = LABELS
    assert units == recognizer.loss_and_transcripts(*speech)[1]
    assert units != both.loss_and_transcripts(*speech)[1] and any(units)


def test_what_cannot_give_a_recognizer_is_refused():
    class Net(SpeechTranscriber):
        """Its config would not be that of a recognizer."""

    heads = nested(heads=3)
    others = {
        "SpeechRecognizer": SpeechRecognizer(3, SpeechFrontend(12, mels=17), **heads),
        "Seq2Seq": Seq2Seq(3, 5, 12, **heads),
        "Net": Net(3, SpeechFrontend(12, mels=17), ctc=True, **heads),
    }
    for name, network in others.items():
        with pytest.raises(ValueError, match=f"{name} cannot become a recognizer; use vitspeech.SpeechTranscriber"):
            JointRecognition(network)
    with pytest.raises(ValueError, match="ctc_weight=0, but the network has a CTC head"):
        JointRecognition(transcriber(ctc=True), ctc_weight=0)


def test_a_run_trains_like_transcription_and_gives_a_recognizer_that_streams(finished_transcriber_run, tmp_path):
    run = tmp_path / "run"
    train([*TINY_TRANSCRIBER, "--model=vitspeech.JointRecognition", f"--run={run}"])
    model, both = vitspeech.load(run), vitspeech.load(finished_transcriber_run)
    assert type(model.network) is SpeechRecognizer and model.task == "vitspeech.Recognition"
    expected = both.network.recognizer().state_dict()
    assert model.network.state_dict().keys() == expected.keys()
    for name, weight in model.network.state_dict().items():
        assert_close(weight, expected[name], atol=0, rtol=0)
    assert model.card["parameters"] == sum(weight.numel() for weight in model.network.parameters())
    assert model.card["delay_ms"] == model.network.context_ms["delay_ms"] is not None
    # The run's config still says how it was trained, the model's what it is.
    assert f"# delay_ms: {model.card['delay_ms']}\n" in (run / "config.yaml").read_text()
    assert yaml.safe_load((run / "config.yaml").read_text())["model"]["class_path"] == "vitspeech.JointRecognition"
    assert set(model.config["init_args"]) == {"units", "tokens", "encoder", "positions"}
    assert model.card["metrics"]["search"]["beam"] == 1
    waveform = torch.randn(16_000, generator=torch.Generator().manual_seed(0)) / 10
    stream = vitspeech.TranscriptStream(model)
    stream.push(waveform[:7000])
    stream.push(waveform[7000:])
    with torch.no_grad():
        best = model.network(waveform[None])[0][0].argmax(-1).unique_consecutive().tolist()
    said = [model.labels[unit] for unit in best if unit < len(model.labels)]
    assert stream.flush().text.split() == said and said
