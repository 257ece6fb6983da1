"""Augmentation of training utterances: speed, room, gain, pauses of composed ones, and noise for recorded ones.

Shapes: B batch, N samples, A samples of background noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.batches import SpeechBatch, collate
from vitspeech.data.clips.augment import interpolated, reverberate
from vitspeech.data.clips.noise import QUIETEST
from vitspeech.errors import check_number


@dataclass(frozen=True)
class SequenceAugment:
    """Random changes to training utterances that preserve their transcripts; each utterance gets its own.

    Args:
        snr_db: Range of the signal-to-noise ratio of training utterances, in decibels. The data set applies it:
            `WordSequences` when it composes utterances, `TranscribedAudio` when it adds noise.
        noise_prob: Probability that a training utterance gets noise. The others stay clean: a network that hears noise
            in every utterance does not recognize clean recordings.
        synthetic: Whether recorded utterances get synthesized noise of many kinds and household sounds (`clips.noise`)
            in place of pink noise.
        speed: Largest relative change of speed, faster or slower; the pitch changes with it.
        gain_db: Largest change of loudness, in either direction, in decibels.
        join_prob: Probability that the utterances of a batch are joined in pairs to half as many of twice the length,
            for recognition of longer ones than there are. `LibriSpeech` and `TranscribedAudio` use it.
        room_prob: Probability that an utterance is put into a random room (`clips.augment.reverberate`).
        room_s: Range of the reverberation time of rooms, in seconds.
        pause_prob: Probability that a pause before, between or after words is drawn from `pause_ms`. `WordSequences`
            uses it: a network that never hears a long pause finds words in noise.
        pause_ms: Shortest and longest of these pauses.
        silence_prob: Probability that a training utterance has no words, only noise or silence, for as long as an
            utterance with words. `WordSequences` uses it: a decoder that hears words in every utterance finds words in
            noise.
    """

    snr_db: tuple[float, float] = (0.0, 30.0)
    noise_prob: float = 0.8
    synthetic: bool = False
    speed: float = 0.15
    gain_db: float = 6.0
    join_prob: float = 0.0
    room_prob: float = 0.0
    room_s: tuple[float, float] = (0.1, 0.6)
    pause_prob: float = 0.0
    pause_ms: tuple[float, float] = (400.0, 2000.0)
    silence_prob: float = 0.0

    def __post_init__(self) -> None:
        most = {"speed": 0.9, "gain_db": 100, "noise_prob": 1, "join_prob": 1, "pause_prob": 1, "silence_prob": 1}
        for name, high in {**most, "room_prob": 1}.items():
            check_number(name, getattr(self, name), 0, high)
        check_number("snr_db", self.snr_db)
        check_number("room_s", self.room_s, 0.01, 10)
        check_number("pause_ms", self.pause_ms, 0)

    def __call__(self, speech: SpeechBatch, sample_rate_hz: int = SAMPLE_RATE_HZ) -> SpeechBatch:
        """Change speed, room and gain of float waveforms, and lengths and spans accordingly; uses torch's generator."""
        waveforms, lengths, units, spans = speech
        shape = (len(lengths), 1)
        if self.speed:
            speeds = 1 - self.speed + 2 * self.speed * torch.rand(shape)
            sounds = [row[:length] for row, length in zip(waveforms, lengths.tolist(), strict=True)]
            sounds = [change_speed(sound, speed) for sound, speed in zip(sounds, speeds[:, 0].tolist(), strict=True)]
            waveforms = pad_sequence(sounds, batch_first=True)
            lengths = lengths.new_tensor([len(sound) for sound in sounds])
            spans = (spans / speeds[..., None].to(spans.device)).long()
        if self.room_prob:
            waveforms = reverberate(waveforms, self.room_prob, self.room_s, sample_rate_hz)
            inside = torch.arange(waveforms.shape[1], device=waveforms.device) < lengths.to(waveforms.device)[:, None]
            waveforms = waveforms * inside  # no echoes in the padding
        gain_db = self.gain_db * (2 * torch.rand(shape, device=waveforms.device) - 1)
        return SpeechBatch(waveforms * 10 ** (gain_db / 20), lengths, units, spans)


def change_speed(sound: Tensor, speed: float) -> Tensor:
    """Play a sound faster (speed > 1) or slower, with cubic interpolation: (N,) -> (N / speed,).

    Takes one sound at a time: on CPU a padded batch took eleven times as long.
    """
    last = len(sound) - 1
    position = torch.arange(round(len(sound) / speed), device=sound.device) * (2 * speed / last) - 1
    return interpolated(sound[None], position[None])[0]


def joined(speech: SpeechBatch, between: Sequence[int]) -> SpeechBatch:
    """Join the utterances of a batch in random pairs: (B, N) -> (⌈B / 2⌉, 2 N) at most. The times of words are dropped.

    `between` are the units between two transcripts, such as the space of characters.
    """
    rows = [row[:length] for row, length in zip(speech.waveforms, speech.lengths.tolist(), strict=True)]
    units = [[unit for unit in row if unit >= 0] for row in speech.units.tolist()]
    half, order = (len(rows) + 1) // 2, torch.randperm(len(rows)).tolist()  # a batch may be sorted by duration
    pairs, alone = list(zip(order[half:], order, strict=False)), order[len(rows) - half : half]
    sounds = [torch.cat((rows[first], rows[second])) for first, second in pairs] + [rows[place] for place in alone]
    said = [[*units[first], *between, *units[second]] for first, second in pairs] + [units[place] for place in alone]
    return collate(sounds, said)


def add_noise(
    waveforms: Tensor, lengths: Tensor, noise: Tensor, snr_db: tuple[float, float], prob: float = 1.0
) -> Tensor:
    """Add noise to each utterance with a probability, at a random SNR: (B, N), (B,), int16 noise (A,) -> (B, N).

    Padding gets none. The noise starts at a random sample and is repeated from its beginning if it ends. The random
    numbers are drawn on the CPU, so they are the same on every device.
    """
    starts = torch.randint(len(noise), (len(lengths),)).tolist()
    ratios_db = (snr_db[0] + (snr_db[1] - snr_db[0]) * torch.rand(len(lengths))).tolist()
    noisy = (torch.rand(len(lengths)) < prob).tolist()
    waveforms = waveforms.clone()
    rows = zip(waveforms, lengths.tolist(), starts, ratios_db, strict=True)
    for row, length, start, ratio_db in compress(rows, noisy):
        sound = row[:length]
        indices = torch.arange(start, start + length, device=noise.device) % len(noise)
        stretch = noise[indices].to(sound) / 32768
        sound_level, noise_level = (part.square().mean().sqrt().clamp(min=QUIETEST) for part in (sound, stretch))
        sound += stretch * (sound_level / noise_level * 10 ** (-ratio_db / 20))
    return waveforms
