"""The parts of a recording are the samples of the whole, and memory does not grow with it."""

import tracemalloc

import numpy
import pytest
import soundfile
import torch

from vitspeech.data.audio.reading import AudioParts, read_audio


def noise(samples, channels=1):
    return 0.2 * numpy.random.default_rng(samples).standard_normal((samples, channels))


def joined(parts):
    return torch.cat(list(parts))


@pytest.mark.parametrize("part_s", [0.013, 0.5, 10.0])
@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (16_000, 2), (16_001, 1)])
def test_without_another_rate_the_samples_are_the_same(tmp_path, rate, channels, part_s):
    soundfile.write(tmp_path / "a.wav", noise(30_011, channels), rate)
    assert torch.equal(joined(AudioParts(tmp_path / "a.wav", part_s=part_s)), read_audio(tmp_path / "a.wav"))


@pytest.mark.parametrize(
    ("rate", "part_s"), [(8_000, 0.03), (11_025, 0.03), (44_099, 0.2), (44_100, 0.03), (48_000, 10), (96_000, 0.03)]
)
def test_a_part_is_resampled_together_with_what_is_around_it(tmp_path, rate, part_s):
    for samples in (rate // 9, rate // 2 + 13):
        soundfile.write(tmp_path / "a.wav", noise(samples, 2), rate)
        found = joined(AudioParts(tmp_path / "a.wav", part_s=part_s)).int()
        expected = read_audio(tmp_path / "a.wav").int()
        assert found.shape == expected.shape
        differences = (found - expected).abs()
        assert differences.max() <= 1 and (differences > 0).float().mean() < 0.002


@pytest.mark.parametrize("ending", ["flac", "ogg", "mp3"])
def test_compressed_recordings_are_read_in_parts(tmp_path, ending):
    for seed in range(5):  # MP3 frames that need those before are rare
        file = tmp_path / f"a.{ending}"
        soundfile.write(file, noise(80_000 + seed), 16_000)
        found, expected = joined(AudioParts(file, part_s=0.3)), read_audio(file)
        assert len(found) == len(expected) and (found.int() - expected.int()).abs().max() <= 1


def test_a_wav_written_to_a_pipe_is_read_with_a_warning(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(20_000), 16_000)
    content = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "b.wav").write_bytes(content[:4] + bytes(4) + content[8:40] + bytes(4) + content[44:])
    with pytest.warns(UserWarning, match=r"without a mark of the end .*b\.wav"):
        parts = list(AudioParts(tmp_path / "b.wav", part_s=0.5))
    assert torch.equal(joined(parts), read_audio(tmp_path / "a.wav"))


def test_joined_recordings_are_read_in_parts(tmp_path):
    for ending in ("ogg", "mp3", "wav"):
        soundfile.write(tmp_path / "a", noise(30_011), 22_050, format=ending)
        (tmp_path / "b").write_bytes(2 * (tmp_path / "a").read_bytes())
        found, expected = joined(AudioParts(tmp_path / "b", part_s=0.4)), read_audio(tmp_path / "b")
        assert len(found) == len(expected) > 43_000 and (found.int() - expected.int()).abs().max() <= 1


def test_a_recording_cut_short_is_an_error_where_it_ends(tmp_path):
    soundfile.write(tmp_path / "a.flac", noise(160_000), 16_000)
    content = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(content[: len(content) // 2])
    parts, found = iter(AudioParts(tmp_path / "a.flac", part_s=1)), 0
    with pytest.raises(ValueError, match=r"a\.flac: (broken or )?truncated"):
        for part in parts:
            found += len(part)
    assert 0 < found < 160_000


def test_memory_does_not_grow_with_the_recording(tmp_path):
    peaks = {}
    for minutes in (1, 8):
        with soundfile.SoundFile(tmp_path / "a.wav", "w", 8_000, 1) as file:
            for _ in range(minutes):
                file.write(numpy.full(60 * 8_000, 0.1))
        tracemalloc.start()
        for _ in AudioParts(tmp_path / "a.wav", 4_000):
            pass
        peaks[minutes] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[8] < 1.1 * peaks[1]  # NumPy's blocks of the file; eight minutes of it are 15 MB
