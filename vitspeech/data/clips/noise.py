"""Noise for training: random stretches of recordings, synthesized noise of many kinds, and household sounds.

Household sounds are what a microphone at home hears that is not speech. Knocks, footsteps and dishes are hits on
something that resonates; sirens, whistles, beeps and calls of animals are tones of a varying pitch; chimes, bells and
instruments are notes of decaying partials; motors, drills and purring are pulses and noise of one rate. Random numbers
are from torch's global generator.

Shapes: B clips, N samples of a clip, A samples of recorded noise, M partials of a sound.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

QUIETEST = 1e-4  # lower bound of the root mean square of clips and noise, 3 steps of 16 bits: below it is silence
LOWEST_HZ = 50.0  # octaves of the filter are counted from here


def uniform(waveforms: Tensor, low: float, high: float) -> Tensor:
    """One uniform random number per clip: (B, 1)."""
    return low + (high - low) * torch.rand(len(waveforms), 1, device=waveforms.device)


def stretches(noise: Tensor, count: int, samples: int) -> Tensor:
    """Random stretches of recorded noise, int16 (A,), as floats within ±1: (B, N)."""
    start = torch.randint(0, len(noise) - samples + 1, (count,), device=noise.device)
    return noise.unfold(0, samples, 1)[start] / 32768


def synthesize(count: int, voices: Tensor, sample_rate_hz: int) -> Tensor:
    """Synthesize noise with random numbers from torch's global generator.

    Each clip has a source of its own (hiss, hum with its harmonics, crackle, babble, or a mixture), which is filtered
    at random (tilted from white to brown, uneven, limited to a band) and fluctuates at random. Babble overlays
    clips of `voices` (V, N), reversed. The root mean square of each clip is 1: -> (B, N).
    """
    samples, device = voices.shape[1], voices.device
    hiss = torch.randn(count, samples, device=device)
    time_s = torch.arange(samples, device=device) / sample_rate_hz
    hum_hz = 40 * 10 ** uniform(hiss, 0, 1)
    chirp = torch.cat((hum_hz, hum_hz * uniform(hiss, -0.1, 0.1)), 1)
    hum = (chirp @ torch.stack((time_s, time_s.square()))).frac() - 0.5
    crackle = hiss * (hiss.abs() > uniform(hiss, 2.3, 3.8))  # from 300 to 3 clicks per second
    voices = (voices[:8] / rms(voices[:8])).flip(1)
    voices = torch.cat((voices, voices.roll(samples // 2, 1)))
    babble = torch.randint(2, (count, len(voices)), device=device).to(voices) @ voices

    def share(probability: float) -> Tensor:
        """The amplitude of a source in each clip, from -20 to 0 dB, or 0: (B, 1)."""
        return (uniform(hiss, 0, 1) < probability) * 10 ** uniform(hiss, -1, 0)

    source = (share(0.7) + 0.01) * hiss
    for other in (hum, crackle, babble):
        source = source + share(0.25) / rms(other) * other
    spectrum = torch.fft.rfft(source) * filters(hiss, sample_rate_hz)
    level_db = fluctuation(hiss, 4) + fluctuation(hiss, 32)
    waveforms = torch.fft.irfft(spectrum, samples) * resampled(decibels(level_db), samples)
    return waveforms / rms(waveforms)


def filters(waveforms: Tensor, sample_rate_hz: int) -> Tensor:
    """A random filter for each clip (B, N): its response at each frequency of the spectrum, complex (B, N // 2 + 1).

    It has a smooth part in decibels, and one resonance, narrow or wide, which turns hiss into a tone and a
    click into a knock.
    """
    samples = waveforms.shape[1]
    frequency_hz = torch.fft.rfftfreq(samples, 1 / sample_rate_hz, device=waveforms.device)
    octave = (frequency_hz / LOWEST_HZ).clamp(min=1).log2()
    octaves = math.log2(max(samples // 2 / samples * sample_rate_hz / LOWEST_HZ, 1))
    points = torch.arange(octaves + 1, device=waveforms.device)
    low = uniform(waveforms, -5, 5)
    high = low.relu() + uniform(waveforms, 1, 9)
    gain_db = points * uniform(waveforms, -6, 2) + 6 * torch.randn(len(waveforms), len(points), device=points.device)
    gain_db = gain_db - 24 * ((low - points).relu() + (points - high).relu())
    interpolation = (1 - (octave - points[:, None]).abs()).relu() * (frequency_hz > 0)
    center_hz, width_hz = 100 * 50 ** uniform(waveforms, 0, 1), 2 * 50 ** uniform(waveforms, 0, 1)
    height = 10 ** uniform(waveforms, -2, 2).relu()  # up to 40 dB, in every second clip
    resonance = 1 + (height - 1) / torch.complex(torch.ones_like(octave), (frequency_hz - center_hz) / width_hz)
    return decibels(gain_db) @ interpolation * resonance


def fluctuation(waveforms: Tensor, points: int) -> Tensor:
    """A random course of each clip's level through some points, of random depth up to 10 dB: (B, 32)."""
    level_db = torch.randn(len(waveforms), points, device=waveforms.device) * uniform(waveforms, -10, 10).relu()
    return resampled(level_db, 32)


def resampled(rows: Tensor, count: int) -> Tensor:
    """Interpolate rows linearly to `count` points: (B, count)."""
    return F.interpolate(rows[:, None], count, mode="linear", align_corners=True)[:, 0]


def decibels(level_db: Tensor) -> Tensor:
    """The amplitude ratio of a level in decibels."""
    return (level_db * (math.log2(10) / 20)).exp2()


def at_level(waveforms: Tensor, dbfs: Tensor) -> Tensor:
    """Scale clips (B, N) to levels (B, 1): root mean square in decibels below full scale, which is ±1."""
    return waveforms * (decibels(dbfs) / rms(waveforms))


def rms(waveforms: Tensor) -> Tensor:
    """The root mean square of each clip, at least `QUIETEST`: (B, 1)."""
    return (torch.linalg.vector_norm(waveforms, dim=1, keepdim=True) / waveforms.shape[1] ** 0.5).clamp(min=QUIETEST)


def pink_noise(samples: int) -> Tensor:
    """Pink noise ten times as long as a clip of `samples`, int16: the background noise if a data set has none."""
    generator = torch.Generator().manual_seed(20_261_121)
    spectrum = torch.fft.rfft(torch.randn(10 * samples, generator=generator))
    pink = torch.fft.irfft(spectrum / torch.arange(1, len(spectrum) + 1).sqrt(), 10 * samples)
    return (pink / pink.abs().max() * 32767).round().to(torch.int16)


def mixed_noise(samples: int, sample_rate_hz: int) -> Tensor:
    """Stretches of two seconds, by turns of `synthesize`, without babble, and of `household`: int16 (A,)."""
    length = 2 * sample_rate_hz
    count = -(-samples // (2 * length))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20_261_129)
        hiss = synthesize(count, torch.zeros(1, length), sample_rate_hz)
        sounds = torch.stack((hiss, household(count, length, sample_rate_hz)), 1).reshape(-1)[:samples]
    return (sounds * 3276.8).round().clamp(-32768, 32767).to(torch.int16)


COURSE_HZ = 500  # points per second of pitch and loudness, which are interpolated
TAIL_S = 0.5  # of a hit
BLOCK = 128  # samples


def household(count: int, samples: int, sample_rate_hz: int, device: torch.device | str | None = None) -> Tensor:
    """Synthesize household sounds: a quarter each of `knocks`, `tones`, `chimes` and `motors`, in white noise.

    The root mean square of each clip is 1: -> (B, N).
    """
    sounds = torch.empty(count, samples, device=device)
    kind = torch.randint(4, (count,), device=device)
    for number, draw in enumerate((knocks, tones, chimes, motors)):
        chosen = kind == number
        if chosen.any():
            sounds[chosen] = draw(sounds[chosen], sample_rate_hz)
    sounds = sounds / rms(sounds)
    sounds = sounds + decibels(uniform(sounds, -70, -10)) * torch.randn_like(sounds)
    return sounds / rms(sounds)


def log_uniform(like: Tensor, low: float, high: float, count: int = 1) -> Tensor:
    """Random numbers whose logarithms are uniform: (B, N) -> (B, count)."""
    return low * (high / low) ** torch.rand(len(like), count, device=like.device)


def knocks(like: Tensor, sample_rate_hz: int) -> Tensor:
    """One to sixteen hits, each with a burst of noise and four decaying resonances: (B, N) -> (B, N)."""
    count, samples = like.shape
    duration_s = samples / sample_rate_hz
    number = torch.arange(16, device=like.device)
    time_s = torch.rand(count, 1, device=like.device) * duration_s / 2 + number * log_uniform(like, 0.05, 1.0)
    time_s = time_s + 0.3 * uniform(like, 0, 1) * log_uniform(like, 0.01, 0.3, 16)
    heard = (time_s < duration_s) & (number <= 16 * uniform(like, 0, 1).square())
    places = (time_s * sample_rate_hz).long().clamp(max=samples - 1)
    loudness = decibels(uniform(like, -20, 0) * torch.rand_like(time_s)) * heard
    hits = torch.zeros_like(like).scatter_add(1, places, loudness)

    size = min(round(TAIL_S * sample_rate_hz), samples)
    frequency_hz = log_uniform(like, 80, 0.45 * sample_rate_hz, 4)
    decay_s = log_uniform(like, 0.003, 0.12) * log_uniform(like, 0.3, 3, 4)
    level = decibels(-30 * torch.rand(count, 4, device=like.device))
    response = decaying(frequency_hz, decay_s, level, size, sample_rate_hz)
    silent = torch.zeros(count, 1, device=like.device)
    burst = decaying(
        silent, log_uniform(like, 0.001, 0.08), decibels(uniform(like, -30, 10)), size, sample_rate_hz, phase=0.25
    )
    response = response + torch.randn_like(response) * burst
    # A product of spectra is a circular convolution: the clip begins with the end of the last hit.
    return torch.fft.irfft(torch.fft.rfft(hits) * torch.fft.rfft(response, samples), samples)


def tones(like: Tensor, sample_rate_hz: int) -> Tensor:
    """A tone with harmonics whose pitch is constant, swept, alternating or wandering, in one piece or several:
    (B, N) -> (B, N)."""
    samples = like.shape[1]
    turns = cycles(like, sample_rate_hz, 0.2, 12.0)
    triangle = 4 * (turns.frac() - 0.5).abs() - 1
    courses = torch.stack(((2 * math.pi * turns).sin(), 2 * turns.frac() - 1, 1 - 2 * turns.frac(), triangle), 1)
    courses = torch.cat((courses, torch.sign(courses[:, :1]), wandering(like, turns.shape[1])[:, None]), 1)
    course = courses[torch.arange(len(like), device=like.device), torch.randint(6, (len(like),), device=like.device)]
    octaves = course * uniform(like, -0.3, 1.0).relu()  # 0 in a quarter of the clips: a beep
    pitch_hz = log_uniform(like, 150, 0.2 * sample_rate_hz) * octaves.exp2()
    tone = harmonics(pitch_hz, samples, sample_rate_hz, decibels(uniform(like, -25, -1)))
    rhythm = cycles(like, sample_rate_hz, 0.5, 8.0).frac()
    share = uniform(like, 0.1, 1.6)  # of a period; from 1 on the tone does not pause
    edge = uniform(like, 0.02, 0.3)
    loudness = ((share - rhythm) / edge).clamp(0, 1) * (rhythm / edge).clamp(0, 1).where(share < 1, 1)
    breath = decibels(uniform(like, -50, -5)) * torch.randn_like(like)
    sound = (tone / rms(tone) + breath) * resampled(loudness, samples)
    return torch.fft.irfft(torch.fft.rfft(sound) * filters(like, sample_rate_hz), samples)


def chimes(like: Tensor, sample_rate_hz: int) -> Tensor:
    """Four notes of three partials each, of a bell, a string or an organ, as a chord or one after another:
    (B, N) -> (B, N)."""
    count, samples = like.shape
    steps = torch.randint(25, (count, 4), device=like.device)  # semitones
    pitch_hz = (log_uniform(like, 100, 0.08 * sample_rate_hz) * (steps / 12).exp2())[..., None]
    partial = torch.arange(1, 4, device=like.device) ** (1 + uniform(like, -0.5, 0.5).relu())  # integers: harmonic
    frequency_hz = pitch_hz * partial[:, None]
    level = torch.rand(frequency_hz.shape, device=like.device) * (frequency_hz < sample_rate_hz / 2)
    decay_s, attack_s = log_uniform(like, 0.05, 3.0)[..., None], log_uniform(like, 0.001, 0.05)[..., None]
    decay_s = (decay_s / torch.arange(1, 4, device=like.device)).expand_as(frequency_hz)  # high ones decay faster
    rising_s = 1 / (1 / decay_s + 1 / attack_s)  # a product of decays
    spread = uniform(like, -0.3, 1).relu() * samples / BLOCK
    onset = (torch.rand(count, 4, device=like.device) * spread).long()[..., None].expand_as(frequency_hz)
    pairs = ((frequency_hz, frequency_hz), (decay_s, rising_s), (level, -level), (onset, onset))
    frequency_hz, decay_s, level, onset = (torch.cat(pair, 2).flatten(1) for pair in pairs)
    return decaying(frequency_hz, decay_s, level, samples, sample_rate_hz, onset=onset)


def motors(like: Tensor, sample_rate_hz: int) -> Tensor:
    """Pulses and noise of one rate, which wanders or runs up or down: (B, N) -> (B, N)."""
    samples = like.shape[1]
    points = round(samples / sample_rate_hz * COURSE_HZ) + 1
    ramp = uniform(like, -1, 1) * torch.linspace(0, 1, points, device=like.device)
    octaves = 0.2 * uniform(like, 0, 1) * wandering(like, points) + ramp * (uniform(like, 0, 1) < 0.3)
    phase = 2 * math.pi * turned(log_uniform(like, 15, 250) * octaves.exp2(), samples)
    pulses = (log_uniform(like, 1, 30) * (phase.cos() - 1)).exp()
    hiss = torch.randn_like(like) * (1 - uniform(like, 0, 1) * (1 - pulses))
    sound = (pulses - pulses.mean(1, keepdim=True)) / rms(pulses) + decibels(uniform(like, -30, 10)) * hiss / rms(hiss)
    return torch.fft.irfft(torch.fft.rfft(sound) * filters(like, sample_rate_hz), samples)


def decaying(
    frequency_hz: Tensor,
    decay_s: Tensor,
    level: Tensor,
    samples: int,
    sample_rate_hz: int,
    *,
    phase: float = 0.0,
    onset: Tensor | int = 0,
) -> Tensor:
    """The sum of decaying sines, level · exp(-t / decay) · sin(2π (frequency · t + phase)): (B, M) -> (B, samples).

    Each begins after `onset` blocks of 128 samples. A power with a sum as its exponent is a product of powers: one
    computes a block of each, and one value of each in every block.
    """
    rate = (torch.complex(-1 / decay_s, 2 * math.pi * frequency_hz) / sample_rate_hz)[..., None]
    fine = (rate * torch.arange(BLOCK, device=rate.device)).exp()
    onset = torch.as_tensor(onset, device=rate.device)[..., None]
    block = torch.arange(math.ceil(samples / BLOCK), device=rate.device) - onset
    start = torch.polar(level, torch.full_like(level, 2 * math.pi * phase))[..., None]
    coarse = (start * (block >= 0) * (rate * BLOCK * block.clamp(min=0)).exp()).mT
    parts = torch.cat((coarse.real, coarse.imag), 2) @ torch.cat((fine.imag, fine.real), 1)
    return parts.flatten(1)[:, :samples]


def cycles(like: Tensor, sample_rate_hz: int, low_hz: float, high_hz: float) -> Tensor:
    """Cycles since a random start, of a constant random rate, `COURSE_HZ` times a second: (B, N) -> (B, points)."""
    points = round(like.shape[1] / sample_rate_hz * COURSE_HZ) + 1
    time_s = torch.arange(points, device=like.device) / COURSE_HZ
    return uniform(like, 0, 1) + log_uniform(like, low_hz, high_hz) * time_s


def wandering(like: Tensor, points: int) -> Tensor:
    """A random course through six points of a standard normal distribution: (B, N) -> (B, points)."""
    return resampled(torch.randn(len(like), 6, device=like.device), points)


def harmonics(pitch_hz: Tensor, samples: int, sample_rate_hz: int, decrease: Tensor) -> Tensor:
    """Six harmonics of a tone, each `decrease` (B, 1) times as high as the one before: (B, points) -> (B, samples).

    Harmonics above half of the sample rate are left out. sin(hφ) = 2 cos φ sin((h - 1)φ) - sin((h - 2)φ).
    """
    phase = 2 * math.pi * turned(pitch_hz, samples)
    before, current, twice_cosine = 0.0, phase.sin(), 2 * phase.cos()
    sound, level, highest_hz = current, decrease, pitch_hz.amax(1, keepdim=True)
    for number in range(2, 7):
        before, current = current, twice_cosine * current - before
        sound = torch.addcmul(sound, current, level * (number * highest_hz < sample_rate_hz / 2))
        level = level * decrease
    return sound


def turned(rate_hz: Tensor, samples: int) -> Tensor:
    """The part of the present cycle that is over, of a rate given `COURSE_HZ` times a second: (B, points) -> (B, N)."""
    return resampled(rate_hz.double().cumsum(1).div(COURSE_HZ).to(rate_hz), samples).frac()
