"""Recordings of words as a microphone some meters away hears them: copies with the echoes of simulated rooms.

pip install pyroomacoustics
python docs/results/rooms.py RECORDINGS FOLDER    # RECORDINGS has a folder for each word
vitspeech spot runs/mine --keywords FOLDER/2.0m --split all

FOLDER gets the same folders under `0.5m`, `1.0m`, `2.0m` and `4.0m`, the distance between speaker and microphone. The
room of a recording is drawn from its file name, and the same at all distances: 4 to 7 by 3.5 to 6 by 2.4 to 3 m, with a
reverberation time of 0.2 to 0.6 s, by the image method (Allen and Berkley 1979, doi:10.1121/1.382599). Levels are kept:
`spot` gives all words the same. None of the recordings may have been in training.
"""

import argparse
import random
from pathlib import Path

import numpy
import pyroomacoustics
import soundfile
from tqdm import tqdm

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, read_audio
from vitspeech.data.clips.folder import word_recordings

DISTANCES_M = (0.5, 1.0, 2.0, 4.0)
HEIGHT_M = 1.2  # of speaker and microphone
MARGIN_M = 0.4  # to the walls


def responses(draw: random.Random) -> list[numpy.ndarray]:
    """The impulse responses of a random room from a speaker to microphones at all distances, in one direction."""
    room = (draw.uniform(4, 7), draw.uniform(3.5, 6), draw.uniform(2.4, 3))
    absorption, order = pyroomacoustics.inverse_sabine(draw.uniform(0.2, 0.6), room)
    shoebox = pyroomacoustics.ShoeBox(
        room, fs=SAMPLE_RATE_HZ, materials=pyroomacoustics.Material(absorption), max_order=order
    )
    while True:  # until the farthest microphone is inside
        x, y = (draw.uniform(MARGIN_M, length - MARGIN_M) for length in room[:2])
        angle = draw.uniform(0, 2 * numpy.pi)
        places = [(x + far * numpy.cos(angle), y + far * numpy.sin(angle)) for far in DISTANCES_M]
        if all(MARGIN_M <= at <= length - MARGIN_M for at, length in zip(places[-1], room[:2], strict=True)):
            break
    shoebox.add_source((x, y, HEIGHT_M))
    shoebox.add_microphone_array(numpy.array([(*place, HEIGHT_M) for place in places]).T)
    shoebox.compute_rir()
    return [response[0] for response in shoebox.rir]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    files = [item.file for items in word_recordings(args.recordings).values() for item in items]
    for file in tqdm(files, "rooms"):
        samples = read_audio(file).numpy() / 32768
        for distance, response in zip(DISTANCES_M, responses(random.Random(file.stem)), strict=True):
            sound = numpy.convolve(samples, response)
            sound *= numpy.sqrt(numpy.square(samples).mean() / numpy.square(sound).mean())
            target = args.folder / f"{distance}m" / file.parent.name / f"{file.stem}.flac"
            target.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(target, sound / max(1, abs(sound).max()), SAMPLE_RATE_HZ)


if __name__ == "__main__":
    main()
