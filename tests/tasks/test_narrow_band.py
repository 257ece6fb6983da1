"""Recordings without sound above 4 kHz: a recognizer trained on them hears them clean, with noise, and at full band."""

from itertools import groupby
from types import SimpleNamespace

import pytest
import soundfile
import torch
from torchaudio.functional import resample

from vitspeech.data import TranscribedAudio
from vitspeech.data.batches import Batches
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechRecognizer
from vitspeech.tasks import Recognition

RATE_HZ, WORD_S, EPOCHS = 16_000, 0.3, 40
BANDS_HZ = {"low": (300, 1000), "high": (1500, 3500)}
UPPER_HZ = (4500, 7500)  # which telephones do not transmit
LABELS = list(BANDS_HZ)
NOISE = 0.003  # root mean square, relative to full scale


def band(samples: int, edges_hz: tuple[int, int], draw: torch.Generator) -> torch.Tensor:
    """Noise between two frequencies, with a root mean square of 0.05."""
    spectrum = torch.fft.rfft(torch.randn(samples, generator=draw))
    hertz = torch.linspace(0, RATE_HZ / 2, len(spectrum))
    sound = torch.fft.irfft(spectrum * (edges_hz[0] < hertz) * (hertz < edges_hz[1]), samples)
    return 0.05 * sound / sound.square().mean().sqrt()


def sound(words: list[str], draw: torch.Generator) -> torch.Tensor:
    """Each word is a burst in its own band and, fainter, above 4.5 kHz, with digital silence about it: (N,)."""
    parts, samples = [], int(WORD_S * RATE_HZ)
    for word in words:
        burst = band(samples, BANDS_HZ[word], draw) + 0.3 * band(samples, UPPER_HZ, draw)
        silence = torch.zeros(int(torch.randint(800, 2400, (), generator=draw)))
        parts += [silence, burst * torch.hann_window(samples), silence]
    return torch.cat(parts)


def drawn(count: int, seed: int) -> list[tuple[list[str], torch.Tensor]]:
    draw = torch.Generator().manual_seed(seed)
    said = [[LABELS[unit] for unit in torch.randint(2, (1 + row % 2,), generator=draw)] for row in range(count)]
    return [(words, sound(words, draw)) for words in said]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Recognition:
    """A small recognizer trained on recordings made at 8 kHz, with the default augmentation."""
    root, rows = tmp_path_factory.mktemp("narrow"), ["path,transcript"]
    for number, (words, full) in enumerate(drawn(38, seed=0)):
        soundfile.write(root / f"{number}.wav", resample(full, RATE_HZ, RATE_HZ // 2).numpy(), RATE_HZ // 2)
        rows.append(f"{number}.wav,{' '.join(words)}")
    for split, some in (("train", rows[1:37]), ("validation", rows[37:38]), ("test", rows[38:])):
        (root / f"{split}.csv").write_text("\n".join([rows[0], *some]) + "\n")
    data = TranscribedAudio(str(root), vocabulary=LABELS, batch=12)
    with pytest.warns(UserWarning, match="of 8,000 Hz: mel bins above 4,000 Hz are empty"):
        data.setup("fit")
    data.trainer = SimpleNamespace(training=True)
    torch.manual_seed(5)
    tokens = SpeechFrontend(32, mels=40, stride=4)
    task = Recognition(SpeechRecognizer(2, tokens, encoder={"depth": 1, "heads": 2, "left": 8, "right": 2}))
    task.labels = LABELS
    task.network.initialize(task.sample(data))
    optimizer = torch.optim.AdamW(task.network.parameters(), lr=5e-3)
    batches = Batches(len(data.train), data.batch, seed=5, shuffle=True)
    steps = EPOCHS * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 5, 1 - step / steps))
    for epoch in range(EPOCHS):
        batches.set_epoch(epoch)
        for batch in batches:
            loss = task.loss(data.on_after_batch_transfer(data.train[batch], 0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return task.eval()


def errors(task: Recognition, sounds: list[torch.Tensor], said: list[list[str]]) -> float:
    """The fraction of utterances that are not heard word for word."""
    wrong = 0
    for waveform, words in zip(sounds, said, strict=True):
        likeliest = task.network(waveform[None])[0][0].argmax(-1).tolist()
        wrong += [LABELS[unit] for unit, _ in groupby(likeliest) if unit < len(LABELS)] != words
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
