"""Recordings of words of unknown speakers: the page hears what `vitspeech.stream` and the decoder of keywords hear."""

import io
import os
import random
from pathlib import Path

import numpy
import pytest
import soundfile
import torch
from speech_page import TRUNCATED, give, heard, model, opened, run, status, wav

from vitspeech.inference.spotting import WordSpotter

pytestmark = [pytest.mark.slow, pytest.mark.data]
COUNT, TOGETHER, PAUSE_S, RATE_HZ = 60, 6, 0.6, 16_000


def recordings(labels, seed=18):
    """Clips of the test set, drawn by a seed and strung together with silence: (WAV file, words with their times)."""
    folder = Path(os.environ["VITSPEECH_DATA"]) / "SpeechCommands" / "speech_commands_v0.02"
    listed = [line for line in (folder / "testing_list.txt").read_text().split() if line.split("/")[0] in labels]
    drawn, pause = random.Random(seed).sample(sorted(listed), COUNT), numpy.zeros(round(PAUSE_S * RATE_HZ))
    for first in range(0, COUNT, TOGETHER):
        parts, words, length = [pause], [], len(pause)
        for name in drawn[first : first + TOGETHER]:
            clip = soundfile.read(folder / name)[0]
            words.append((name.split("/")[0], length / RATE_HZ, (length + len(clip)) / RATE_HZ))
            parts += [clip, pause]
            length += len(clip) + len(pause)
        yield wav(numpy.concatenate(parts)), words


def right_words(found, spoken):
    """How many of the spoken words were found in their clip."""
    return sum(any(label == word.label and start < (word.start_s + word.end_s) / 2 < end for word in found)
               for label, start, end in spoken)  # fmt: skip


def test_words_and_times_equal_those_of_torch(modules, browser, address):
    labels, right, count = model(TRUNCATED).labels, 0, 0
    with opened(browser, address) as page:
        for number, (content, spoken) in enumerate(recordings(labels)):
            samples = torch.from_numpy(soundfile.read(io.BytesIO(content), dtype="float32")[0])
            expected = list(WordSpotter(model(TRUNCATED)).words([samples]))
            computed = run(modules, TRUNCATED, content)["words"]
            assert [word["label"] for word in computed] == [word.label for word in expected]
            for word, other in zip(computed, expected, strict=True):
                for name, tolerance in (("start_s", 1e-9), ("end_s", 1e-9), ("decided_s", 1e-9), ("probability", 1e-4)):
                    assert word[name] == pytest.approx(getattr(other, name), abs=tolerance), (number, name)
            give(page, f"{number}.wav", content)
            status(page, f"{number}.wav: {len(expected)} word")
            assert [row[0] for row in heard(page)] == [word.label for word in expected]
            right, count = right + right_words(expected, spoken), count + len(expected)
    print(f"{right} of {COUNT} words are right; {count} were heard")
    assert right > 0.8 * COUNT
