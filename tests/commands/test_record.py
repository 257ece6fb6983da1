"""`vitspeech record` with a stand-in for the microphone."""

import numpy
import pytest
import soundfile
import torch
from running import one_line

from vitspeech.commands import record
from vitspeech.data.clips.folder import AudioFolder
from vitspeech.data.keywords.module import Keywords
from vitspeech.inference import microphone

RATE, PART = 16_000, 1600
ROOM = (20 * numpy.random.default_rng(0).standard_normal(10 * RATE)).astype(numpy.int16)
NOISE = ROOM[: 2 * RATE]


def said(start_s=0.7, peak=8000):
    """Two seconds of noise with a word of half a second."""
    take, start = NOISE.copy(), round(start_s * RATE)
    length = min(RATE // 2, len(take) - start)
    take[start : start + length] += (peak * numpy.sin(numpy.arange(length) / 5)).astype(numpy.int16)
    return take


@pytest.fixture
def hears(monkeypatch):
    """Set what the microphone hears: the room or a take after each pause; then Ctrl-C."""

    def listen(sample_rate_hz, part_s):
        assert (sample_rate_hz, part_s) == (RATE, PART / RATE)
        for samples in listen.takes:
            before = numpy.zeros(round(record.PAUSE_S * RATE), numpy.int16)
            heard = numpy.concatenate((before, samples))
            yield from (heard[first : first + PART] for first in range(0, len(heard), PART))
        raise KeyboardInterrupt

    monkeypatch.setattr(microphone, "listen", listen)
    return lambda *takes: setattr(listen, "takes", takes)


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.wav"))


def test_words_and_room_are_recorded_and_ready_for_training(command, hears, tmp_path):
    folder = tmp_path / "recordings"
    hears(ROOM, *[said()] * 12)
    result = command("record", "lamp", "curtain", "--to", folder, "--count", "6", "--speaker", "anna", "--noise", "10")
    assert result.returncode == 0 and "[1/12] say: " in result.stdout and "[12/12] say: " in result.stdout
    assert result.stdout.splitlines()[-1] == f"12 takes are in {folder}"
    found = names(folder)
    assert found[0] == "_background_noise_/anna.wav" and len(found) == 13
    assert found[1:7] == [f"curtain/anna_nohash_{number}.wav" for number in range(6)]
    assert (soundfile.read(folder / found[1], dtype="int16")[0] == said()).all()
    data = AudioFolder(str(folder))
    with pytest.warns(UserWarning, match="too few speakers"):
        data.setup("fit")
    assert data.labels == ["curtain", "lamp"]
    data = Keywords(["curtain", "lamp"], str(folder))
    few = pytest.warns(UserWarning, match="fewer than 20 recordings of each word")
    with pytest.warns(UserWarning, match="too few speakers"), few:
        assert set(data.read("validation").labels.tolist()) == {0, 1, 3}
    items = data.read("test")  # which has none of six recordings of a word
    assert set(items.labels.tolist()) == {3} and torch.equal(data.noise, torch.from_numpy(ROOM[: 8 * RATE]))
    # The silence of the test is not from the training part of the noise.
    room = numpy.fft.rfft(ROOM.astype(float), 2 * len(ROOM))
    for clip in items.inputs[items.labels == 3].numpy():
        matches = numpy.fft.irfft(room * numpy.fft.rfft(clip.astype(float), 2 * len(ROOM)).conj())[: len(ROOM)]
        assert matches.argmax() >= 8 * RATE


def test_bad_takes_are_named_and_asked_for_again(command, hears, tmp_path):
    folder = tmp_path / "recordings"
    hears(NOISE * 0, said(peak=0), said(1.8), said())
    result = command("record", "lamp", "--to", folder, "--count", "1", "--noise", "0")
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and lines.count("[1/1] say: lamp") == 4
    reasons = [line for line in lines if line.startswith("  again: ")]
    assert ["silent" in reasons[0], "no word" in reasons[1], "cut at the end" in reasons[2]] == [True] * 3
    assert names(folder) == ["lamp/me_nohash_0.wav"]


def test_ctrl_c_keeps_what_is_there_and_the_same_command_goes_on(command, hears, tmp_path):
    folder = tmp_path / "recordings"
    arguments = ["record", "lamp", "curtain", "--to", folder, "--count", "2", "--noise", "10"]
    hears(ROOM, said(), said(), said())
    result = command(*arguments)
    assert result.returncode == 130 and f"stopped: 3 of 4 takes are in {folder}; the same command" in result.stdout
    hears(said())
    result = command(*arguments)
    assert result.returncode == 0 and "[4/4]" in result.stdout and "room" not in result.stdout
    assert len(names(folder)) == 5
    assert command(*arguments).stdout == f"{folder}: has 2 takes of each word by me already\n"


def test_a_microphone_that_gives_nothing_ends_with_one_line(command, hears, tmp_path):
    hears(*[NOISE * 0] * 10)
    message = one_line(command("record", "lamp", "--to", tmp_path, "--noise", "0"))
    assert "10 takes in a row could not be used: silent: is the microphone muted?; check the microphone" in message
    assert names(tmp_path) == []


@pytest.mark.parametrize("level, bar", [(32767, "[" + "#" * 30 + "]    0 dBFS"), (0, "[" + " " * 30 + "]  -60 dBFS")])
def test_the_meter_goes_from_60_db_below_full_scale_to_full_scale(level, bar):
    assert record.meter(level) == bar
