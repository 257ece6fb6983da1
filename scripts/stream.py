#!/usr/bin/env python3
"""Listen to a recording of any length, or live, and print words with their times as they are recognized.

stream.py checkpoints/speech-commands-truncated talk.wav                   # single words among other sound
stream.py checkpoints/spoken-words-ctc talk.wav                            # every word, one after the other
stream.py checkpoints/speech-commands-truncated noise.wav --no-words       # false alarms an hour
stream.py checkpoints/speech-commands-truncated --microphone
"""

import argparse
import time
from collections.abc import Iterable

import torch

import vitspeech
from vitspeech import command_line
from vitspeech.data.audio.reading import read_audio
from vitspeech.inference.microphone import listen
from vitspeech.inference.spotting import Detection, WordSpotter, alarms_per_hour
from vitspeech.inference.transcribe import Segment, is_transcribing

PART_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a released speech model, or of a finished run")
    parser.add_argument("file", nargs="?", metavar="FILE", help="a recording: WAV, FLAC, OGG, any rate and length")
    parser.add_argument("--microphone", action="store_true", help="listen live until Ctrl-C (the extra `live`)")
    spotting = parser.add_argument_group("of a model that spots single words")
    spotting.add_argument("--threshold", type=float, default=0.8, help="probability of a word to be said (default 0.8)")
    spotting.add_argument("--refractory", type=float, default=0.5, metavar="SECONDS", help="pause after one (0.5)")
    parser.add_argument("--no-words", action="store_true", help="the file holds no word: report false alarms an hour")
    arguments = parser.parse_args()
    if (arguments.file is None) == (not arguments.microphone):
        parser.error("give a FILE or --microphone, one of them")
    if arguments.no_words and arguments.microphone:
        parser.error("--no-words counts in a FILE")

    torch.set_num_threads(1)  # parts of a tenth of a second are too small to share
    model = vitspeech.load(arguments.checkpoint)
    if is_transcribing(model.network):
        listener = vitspeech.TranscriptStream(model, search=vitspeech.Search(beam=1))
    else:
        listener = WordSpotter(model, threshold=arguments.threshold, refractory_s=arguments.refractory)
    rate = listener.stream.sample_rate_hz
    print(f"{', '.join(model.labels)}; {1000 * listener.stream.delay_samples / rate:.0f} ms behind", flush=True)
    if arguments.microphone:
        show(listener.words(listen(rate, PART_S)))
        return
    sound = read_audio(arguments.file, rate)
    start = time.perf_counter()
    found = show(listener.words(sound.split(round(PART_S * rate))))
    lasted, took = len(sound) / rate, time.perf_counter() - start
    print(f"{found} words in {lasted:.1f} s of sound, heard in {took:.2f} s (real-time factor {took / lasted:.3f})")
    if arguments.no_words:
        mean, low, high = alarms_per_hour(found, lasted)
        print(f"false alarms an hour: {mean:.1f} (95 % interval {low:.1f} to {high:.1f})")


def show(words: Iterable[Detection | Segment]) -> int:
    """Print each word on a line of its own as it comes, and count them."""
    count = 0
    for word in words:
        count += 1
        sure = f" {word.probability:.2f}" if isinstance(word, Detection) else ""
        print(f"{word.start_s:8.2f} – {word.end_s:.2f} s  {word.label:12}{sure}".rstrip(), flush=True)
    return count


if __name__ == "__main__":
    command_line.run(main)
