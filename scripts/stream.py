#!/usr/bin/env python3
"""Listen to a recording of any length, or live, and print words with their times as they are recognised.

stream.py checkpoints/speech-commands-truncated talk.wav
stream.py checkpoints/speech-commands-truncated noise.wav --no-words       # false alarms an hour
stream.py checkpoints/speech-commands-truncated --microphone
"""

import argparse
import time
from collections.abc import Iterable

import torch

import vitspeech
from vitspeech import command_line
from vitspeech.data.audio import read_audio
from vitspeech.microphone import listen
from vitspeech.spotting import Word, WordSpotter, alarms_per_hour

PART_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a released speech model, or of a finished run")
    parser.add_argument("file", nargs="?", metavar="FILE", help="a recording: WAV, FLAC, OGG, any rate and length")
    parser.add_argument("--microphone", action="store_true", help="listen live until Ctrl-C (the extra `live`)")
    parser.add_argument("--threshold", type=float, default=0.8, help="probability of a word to be said (default 0.8)")
    parser.add_argument(
        "--refractory", type=float, default=0.5, metavar="SECONDS", help="pause after one (default 0.5)"
    )
    parser.add_argument("--no-words", action="store_true", help="the file holds no word: report false alarms an hour")
    arguments = parser.parse_args()
    if (arguments.file is None) == (not arguments.microphone):
        parser.error("give a FILE or --microphone, one of them")
    if arguments.no_words and arguments.microphone:
        parser.error("--no-words counts in a FILE")

    torch.set_num_threads(1)  # parts of a tenth of a second are too small to share
    model = vitspeech.load(arguments.checkpoint)
    spotter = WordSpotter(model, threshold=arguments.threshold, refractory_s=arguments.refractory)
    rate = spotter.stream.sample_rate_hz
    print(f"{', '.join(model.labels)}; {1000 * spotter.stream.delay_samples / rate:.0f} ms behind", flush=True)
    if arguments.microphone:
        show(spotter.words(listen(rate, PART_S)))
        return
    sound = read_audio(arguments.file, rate)
    start = time.perf_counter()
    found = show(spotter.words(sound.split(round(PART_S * rate))))
    lasted, took = len(sound) / rate, time.perf_counter() - start
    print(f"{found} words in {lasted:.1f} s of sound, heard in {took:.2f} s (real-time factor {took / lasted:.3f})")
    if arguments.no_words:
        mean, low, high = alarms_per_hour(found, lasted)
        print(f"false alarms an hour: {mean:.1f} (95 % interval {low:.1f} to {high:.1f})")


def show(words: Iterable[Word]) -> int:
    """Print each word on a line of its own as it comes, and count them."""
    count = 0
    for word in words:
        count += 1
        print(f"{word.start_s:8.2f} – {word.end_s:.2f} s  {word.label:12} {word.probability:.2f}", flush=True)
    return count


if __name__ == "__main__":
    command_line.run(main)
