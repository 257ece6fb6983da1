"""Recordings without sound above 4 kHz: a recognizer trained on them hears them clean, with noise, and at full band."""

from types import SimpleNamespace

import pytest
import soundfile
import torch
from torchaudio.functional import resample

from vitspeech.data import TranscribedAudio
from vitspeech.data.batches import Batches
from vitspeech.frontends import SpeechTokens
from vitspeech.models import SpeechRecognizer
from vitspeech.tasks import Recognition

RATE_HZ, WORD_S, HIGHEST_HZ = 16_000, 0.3, 7600
PITCH_HZ = {"low": 200, "high": 500}
LABELS = list(PITCH_HZ)
NOISE = 0.003  # root mean square, relative to full scale


def sound(words: list[str], draw: torch.Generator) -> torch.Tensor:
    """Voices of a low or a high pitch, with harmonics up to 7.6 kHz, and digital silence about each word."""
    parts, seconds = [], torch.arange(int(WORD_S * RATE_HZ)) / RATE_HZ
    for word in words:
        hertz = PITCH_HZ[word] * (1 + 0.3 * torch.rand((), generator=draw))
        harmonics = torch.arange(1, HIGHEST_HZ // hertz + 1)
        voice = (torch.sin(2 * torch.pi * hertz * harmonics[:, None] * seconds) / harmonics[:, None]).sum(0)
        silence = torch.zeros(int(torch.randint(800, 2400, (), generator=draw)))
        parts += [silence, 0.1 * voice * torch.hann_window(len(seconds)), silence]
    return torch.cat(parts)


def drawn(count: int, seed: int) -> list[tuple[list[str], torch.Tensor]]:
    draw = torch.Generator().manual_seed(seed)
    said = [[LABELS[unit] for unit in torch.randint(2, (1 + row % 2,), generator=draw)] for row in range(count)]
    return [(words, sound(words, draw)) for words in said]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Recognition:
    """A small recognizer trained on recordings made at 8 kHz, with the default augmentation."""
    root, rows = tmp_path_factory.mktemp("narrow"), ["path,transcript"]
    for number, (words, full) in enumerate(drawn(24, seed=0)):
        soundfile.write(root / f"{number}.wav", resample(full, RATE_HZ, RATE_HZ // 2).numpy(), RATE_HZ // 2)
        rows.append(f"{number}.wav,{' '.join(words)}")
    (root / "train.csv").write_text("\n".join(rows) + "\n")
    data = TranscribedAudio(str(root), vocabulary=LABELS, batch=8)
    data.setup("fit")
    data.trainer = SimpleNamespace(training=True)
    torch.manual_seed(0)
    tokens = SpeechTokens(32, mels=40, stride=4)
    task = Recognition(SpeechRecognizer(2, tokens, encoder={"depth": 1, "heads": 2, "left": 8, "right": 2}))
    task.labels = LABELS
    task.network.initialize(task.sample(data))
    optimizer = torch.optim.AdamW(task.network.parameters(), lr=1e-2)
    batches = Batches(len(data.train), data.batch, shuffle=True)
    for epoch in range(20):
        batches.set_epoch(epoch)
        for batch in batches:
            loss = task.loss(data.on_after_batch_transfer(data.train[batch], 0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert loss < 0.5
    return task.eval()


def errors(task: Recognition, sounds: list[torch.Tensor], said: list[list[str]]) -> float:
    """The fraction of utterances that are not heard word for word."""
    wrong = 0
    for waveform, words in zip(sounds, said, strict=True):
        (units,) = task.greedy_transcripts(waveform[None], torch.tensor([len(waveform)]))
        wrong += [LABELS[unit] for unit in units] != words
    return wrong / len(said)


@pytest.mark.parametrize("kind", ["narrow, clean", "narrow, with noise", "full band"])
@torch.no_grad()
def test_a_recognizer_trained_on_narrow_recordings_hears_clean_noisy_and_full_ones(trained, kind):
    said, sounds = zip(*drawn(20, seed=1), strict=True)
    if kind != "full band":
        sounds = [resample(resample(full, RATE_HZ, RATE_HZ // 2), RATE_HZ // 2, RATE_HZ) for full in sounds]
    if kind == "narrow, with noise":
        draw = torch.Generator().manual_seed(2)
        sounds = [narrow + NOISE * torch.randn(narrow.shape, generator=draw) for narrow in sounds]
    assert errors(trained, sounds, said) <= 0.1
