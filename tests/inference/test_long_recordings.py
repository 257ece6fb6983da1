"""Long recordings are streamed: the transcript of the whole, in memory that does not grow."""

from pathlib import Path

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from tiny import ROOT

import vitspeech
from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import AudioParts, read_audio
from vitspeech.decoding.search import Search
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.transcribe import transcribe
from vitspeech.models import SpeechRecognizer, SpeechTranscriber
from vitspeech.samples import FOLDER

LABELS = {"words": ["go", "stop", "left", "up"], "characters": [" ", "a", "b", "c"], "pieces": ["▁go", "▁a", "b", "c"]}
SEARCHES = [Search(1), Search(4)]


def model(kind=SpeechRecognizer, labels=LABELS["words"], **arguments) -> Model:
    """A small recognizer that outputs many units for noise."""
    torch.manual_seed(0)
    options = {"left": 5, "right": 2, "depth": 1, "heads": 3} | arguments
    network = kind(len(labels), SpeechFrontend(12, mels=17, stem="stacked", stride=3), **nested(**options)).eval()
    network.initialize(0.1 * torch.randn(3, 16_000))
    network.head.weight.data *= 6
    return Model(network, labels, {"sample_rate_hz": 16_000, "units": "words"}, {}, {})


@pytest.fixture
def recordings(tmp_path):
    """Four recordings of 0.4 to 2 s, of which the first and the third are above 0.9 s."""
    generator = numpy.random.default_rng(0)
    sizes = {"a.wav": (16_000, 1), "b.flac": (44_100, 0.4), "c.flac": (44_100, 2), "d.ogg": (24_000, 0.7)}
    for name, (rate, seconds) in sizes.items():
        soundfile.write(tmp_path / name, 0.1 * generator.standard_normal(int(rate * seconds)), rate)
    return tmp_path


@pytest.fixture
def shorter(monkeypatch):
    """Recordings above 0.9 s are long ones."""
    monkeypatch.setattr("vitspeech.data.audio.reading.LONGEST_S", 0.9)


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam"])
@pytest.mark.parametrize("units", LABELS)
def test_streamed_and_batched_recordings_have_the_same_transcripts(recordings, monkeypatch, units, search):
    released = model(labels=LABELS[units])
    batched = dict(transcribe(released, [recordings], search=search))
    monkeypatch.setattr("vitspeech.data.audio.reading.LONGEST_S", 0.9)
    mixed = dict(transcribe(released, [recordings], search=search))
    assert list(mixed) == list(batched) == sorted(batched)
    for path, found in mixed.items():
        expected = batched[path]
        assert (found.text, found.units, found.words) == (expected.text, expected.units, expected.words)
        assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-4)
        assert found.text == " ".join(word.label for word in found.words)
    assert any(found.words for found in mixed.values())


def test_a_model_that_cannot_be_streamed_says_which_can(recordings, shorter):
    released, errors = model(SpeechTranscriber), {}
    reason = "SpeechTranscriber can't be streamed: its decoder needs the whole recording"
    done = [path.name for path, _ in transcribe(released, [recordings], on_error=lambda *found: errors.update([found]))]
    assert done == ["b.flac", "d.ogg"] and [path.name for path in errors] == ["a.wav", "c.flac"]
    message = str(errors[recordings / "c.flac"])
    assert message.startswith(f"{recordings / 'c.flac'}: lasts 2.0 s, above 0.9 s; {reason}")
    assert "use a model with a limited `right` in every block" in message


def test_a_long_recording_cut_short_is_reported_and_the_others_are_transcribed(recordings, shorter):
    released, errors = model(), {}
    content = (recordings / "c.flac").read_bytes()
    (recordings / "c.flac").write_bytes(content[: len(content) // 2])
    done = [path.name for path, _ in transcribe(released, [recordings], on_error=lambda *found: errors.update([found]))]
    assert done == ["a.wav", "b.flac", "d.ogg"] and "truncated" in str(errors[recordings / "c.flac"])
    with pytest.raises(ValueError, match=r"c\.flac: .*truncated"):
        list(transcribe(released, [recordings]))


@pytest.mark.parametrize("search", [Search(1), Search(8)], ids=["greedy", "beam"])
def test_a_released_model_transcribes_minutes_like_the_whole(tmp_path, search):
    released = vitspeech.load(ROOT / "checkpoints/spoken-words-ctc")
    samples = read_audio(FOLDER / "left-right-go.wav").repeat(18)
    soundfile.write(tmp_path / "long.wav", samples.numpy(), 16_000)
    ((_, found),) = transcribe(released, [tmp_path / "long.wav"], search=search)
    waveforms, lengths = samples[None] / 32768, torch.tensor([len(samples)])
    expected = transcribe_batch(released.network, released.labels, waveforms, lengths, search)[0]
    assert (found.text, found.units) == (expected.text, expected.units) and found.units == found.words
    assert len(samples) / 16_000 > 60 and found.text == " ".join(["left right go"] * 18)


class Watched:
    """A recording that notes the memory of the process, in MB, whenever its next part is read."""

    def __init__(self, recording: AudioParts) -> None:
        self.path, self.duration_s, self.sample_rate_hz = recording.path, recording.duration_s, recording.sample_rate_hz
        self.recording, self.megabytes = recording, []

    def __iter__(self):
        for part in self.recording:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.megabytes.append(pages * 4096 / 1e6)
            yield part


def test_memory_does_not_grow_with_the_recording(tmp_path):
    generator = numpy.random.default_rng(0)
    with soundfile.SoundFile(tmp_path / "long.wav", "w", 16_000, 1) as file:
        part = 0.1 * generator.standard_normal(160_000)
        for _ in range(36):  # six minutes: 23 MB of samples as floats, and more of everything computed from them
            file.write(part)
    recording = Watched(AudioParts(tmp_path / "long.wav"))
    found = vitspeech.TranscriptStream(model(right=1), search=Search(1)).transcript(recording)
    assert len(recording.megabytes) == 36 and len(found.units) > 1000
    assert max(recording.megabytes[6:]) - max(recording.megabytes[:6]) < 8
