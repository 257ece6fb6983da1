"""Record clips of your own words by microphone, into a folder that is ready for training.

vitspeech record lamp heating curtain --to recordings --speaker anna
vitspeech record lamp heating curtain --to recordings --speaker ben --count 20

First the room is recorded, as background noise; then each word is shown, and has to be said within --seconds. Words
come in rounds, shuffled. A take that is silent, clipped, too noisy, too short or cut is named and asked for again. The
files are WORD/SPEAKER_nohash_NUMBER.wav. Ctrl-C keeps what is recorded, and the same command continues from there.
Needs the extra `live`.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy

from vitspeech import command_line
from vitspeech.errors import InputError, MissingExtraError, check_number

PART_S = 0.1  # of the level meter
PAUSE_S = 0.6  # before each take, in which nothing is recorded
MOST_TRIES = 10
LEAST_NOISE_S, MOST_NOISE_S = 10, 600  # a tenth each is for validation and test, and must hold a clip
METER_DB, METER_WIDTH = 60, 30  # the range of the level meter below full scale, and its characters


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech record`: prompts for each take, and says what is wrong with it."""
    parser = command_line.parser("record", __doc__, trusts=False)
    add = parser.add_argument
    add("words", nargs="+", metavar="WORD", help="words to record")
    add("--to", type=Path, required=True, metavar="FOLDER", help="folder of the recordings")
    add("--count", type=int, default=10, metavar="N", help="takes of each word (default 10)")
    add("--seconds", type=float, default=2.0, metavar="S", help="length of a take (default 2)")
    add("--speaker", default="me", metavar="NAME", help="who speaks, for the files' names (default me)")
    text = "language of the words, one of eSpeak NG's (default en)"
    add("--language", default="en", metavar="CODE", help=text)
    text = f"length of the recording of the room, at least {LEAST_NOISE_S} (default 20; 0 records none)"
    add("--noise", type=float, default=20.0, metavar="S", help=text)
    options = parser.parse_args(arguments)
    command_line.check_folder(options.to, "--to")

    from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
    from vitspeech.data.audio.similar_words import check_words
    from vitspeech.data.audio.takes import missing_takes, problem_of_noise, problem_of_take
    from vitspeech.data.clips.silence import NOISE
    from vitspeech.inference.microphone import listen

    check_number("--count", options.count, 1, 10_000)
    check_number("--seconds", options.seconds, 0.5, 10)
    if options.noise:
        check_number("--noise", options.noise, LEAST_NOISE_S, MOST_NOISE_S)
    takes = missing_takes(options.to, options.words, options.count, options.speaker)
    with suppress(MissingExtraError):  # words can be recorded without being synthesized
        check_words(options.words, options.language)
    total = options.count * len(options.words)
    if not takes:
        print(f"{options.to}: has {options.count} takes of each word by {options.speaker} already")
        return
    room = options.to / NOISE / f"{options.speaker}.wav"
    parts = listen(SAMPLE_RATE_HZ, PART_S)
    recorded = total - len(takes)
    try:
        if options.noise and not room.exists():
            take("be quiet: the room is recorded", parts, options.noise, room, problem_of_noise)
        for word, file in takes:
            take(f"[{recorded + 1}/{total}] say: {word}", parts, options.seconds, file, problem_of_take)
            recorded += 1
    except KeyboardInterrupt:
        print(f"\nstopped: {recorded} of {total} takes are in {options.to}; the same command goes on from there")
        raise
    print(f"{total} takes are in {options.to}")


def take(
    prompt: str,
    parts: Iterator[numpy.ndarray],
    duration_s: float,
    file: Path,
    problem_of: Callable[[numpy.ndarray], str | None],
) -> None:
    """Prompt for a take until `problem_of` finds nothing wrong with one, and save it."""
    from vitspeech.data.audio.takes import save_take

    for _ in range(MOST_TRIES):
        list(itertools.islice(parts, round(PAUSE_S / PART_S)))
        print(prompt, flush=True)
        samples = hear(parts, duration_s)
        problem = problem_of(samples)
        if problem is None:
            save_take(samples, file)
            return
        print(f"  again: {problem}", flush=True)
    raise InputError(f"{MOST_TRIES} takes in a row could not be used: {problem}; check the microphone")


def hear(parts: Iterator[numpy.ndarray], duration_s: float) -> numpy.ndarray:
    """Record a take, and show its level in a terminal: int16 (N,)."""
    from vitspeech.data.audio.levels import Levels
    from vitspeech.data.audio.reading import SAMPLE_RATE_HZ

    length, heard = round(duration_s * SAMPLE_RATE_HZ), numpy.empty(0, numpy.int16)
    while len(heard) < length:
        part = next(parts)
        heard = numpy.concatenate((heard, part))
        if sys.stdout.isatty():
            print(f"\r  {meter(Levels().add(part).peak)}", end="", flush=True)
    if sys.stdout.isatty():
        print("\r" + " " * (METER_WIDTH + 14) + "\r", end="", flush=True)
    return heard[:length]


def meter(level: float) -> str:
    """The peak of a part of a take as a bar: `[######   ]  -12 dBFS`."""
    decibels = max(20 * math.log10(max(level, 1) / 32767), -METER_DB)
    filled = round((1 + decibels / METER_DB) * METER_WIDTH)
    return f"[{'#' * filled:{METER_WIDTH}}] {decibels:4.0f} dBFS"
