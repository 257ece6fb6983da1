"""How much noise is recognized as `silence`, by its level: python docs/results/silence.py ROOT MODEL [MODEL ...]

For each level: 50 cuts from the test part of each of the six noise recordings of Speech Commands, and 100 clips each of
sirens, knocks and chords, and of babble of 16 test clips.
"""

import sys
from collections.abc import Iterator

import torch
from torch import Tensor

import vitspeech
from vitspeech.data import SpeechCommands
from vitspeech.data.clips.noise import at_level, rms, stretches

RATE_HZ, LEVELS_DBFS, COUNT = 16_000, range(-60, -14, 5), 100
TIME_S = torch.arange(RATE_HZ) / RATE_HZ


def uniform(low: float, high: float, *shape: int) -> Tensor:
    """Uniform random numbers."""
    return low + (high - low) * torch.rand(*shape)


def siren() -> Tensor:
    """A tone of three harmonics that sweeps up and down."""
    sweep = torch.sin(2 * torch.pi * (uniform(0.5, 6, 1) * TIME_S + uniform(0, 1, 1)))
    phase = 2 * torch.pi * (uniform(400, 2500, 1) * 2 ** (uniform(0.3, 1, 1) * sweep)).cumsum(0) / RATE_HZ
    return sum(uniform(0, 1, 1) * torch.sin(number * phase) for number in (1, 2, 3))


def knocks() -> Tensor:
    """One to seven times four resonances that decay."""
    clip = torch.zeros(RATE_HZ)
    for start in torch.randint(RATE_HZ, (int(torch.randint(1, 8, ())),)).tolist():
        for _ in range(4):
            decay = (-TIME_S * uniform(15, 80, 1)).exp()
            tone = uniform(0.2, 1, 1) * decay * torch.sin(2 * torch.pi * uniform(150, 3000, 1) * TIME_S)
            clip[start:] += tone[: RATE_HZ - start]
    return clip


def chords() -> Tensor:
    """Chords of three notes with six harmonics, one to six per second."""
    clip = torch.zeros(RATE_HZ)
    for start in range(0, RATE_HZ, int(RATE_HZ / uniform(1, 6, ()))):
        for semitone in torch.randint(36, (3,)).tolist():
            phase = 2 * torch.pi * 110 * 2 ** (semitone / 12) * TIME_S
            note = (-4 * TIME_S).exp() * sum(torch.sin(number * phase) / number**1.5 for number in range(1, 7))
            clip[start:] += note[: RATE_HZ - start]
    return clip


def babble(voices: Tensor) -> Tensor:
    """Sixteen clips of words (V, N), reversed and shifted."""
    some = voices[torch.randint(len(voices), (16,))].flip(1)
    return sum(clip.roll(int(torch.randint(RATE_HZ, ()))) for clip in some / rms(some))


def noises(data: SpeechCommands) -> Iterator[tuple[str, Tensor]]:
    """Each kind of noise with its clips, (B, N)."""
    torch.manual_seed(0)
    recordings = data.backgrounds("test").values()
    yield "recordings", torch.cat([stretches(recording, COUNT // 2, RATE_HZ) for recording in recordings])
    test = data.read("test")
    voices = test.inputs[test.labels < len(data.words)] / 32768
    for name, make in (("sirens", siren), ("knocks", knocks), ("chords", chords), ("babble", lambda: babble(voices))):
        yield name, torch.stack([make() for _ in range(COUNT)]) + 1e-3 * torch.randn(COUNT, RATE_HZ)


@torch.inference_mode()
def main(root: str, *models: str) -> None:
    """Print one table per kind of noise, with one row per model."""
    loaded = {path: vitspeech.load(path) for path in models}
    words = next(iter(loaded.values())).labels[:-2]
    for kind, clips in noises(SpeechCommands(words, root, unknown=0.1, silence=0.1)):
        print(f"\n| {kind}, {len(clips)} clips | {' | '.join(f'{level} dBFS' for level in LEVELS_DBFS)} |")
        for path, model in loaded.items():
            shares = []
            for level in LEVELS_DBFS:
                inputs = at_level(clips, torch.full((len(clips), 1), float(level))).clamp(-1, 1)
                predictions = torch.cat([model.network(part).argmax(1) for part in inputs.split(100)])
                shares.append(100 * (predictions == model.labels.index("silence")).float().mean().item())
            print(f"| {path} | {' | '.join(f'{share:.0f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
