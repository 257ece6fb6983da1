"""Make `checkpoints/background`: the speech and noise that spotters of own words learn to reject, as Opus files.

python docs/results/background.py ROOT checkpoints/background    # ROOT has LibriSpeech/ and SpeechCommands/

speech/ has sentences of LibriSpeech train-clean-5 in LibriSpeech's layout, and single words of Speech Commands one
after another, by training and validation speakers of `vitspeech.data.audio.continuous.speech_split`; none of the test.
noise/ has the beginning of each noise recording of Speech Commands. Sources: Panayotov et al. 2015 and Warden 2018,
both CC BY 4.0.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy
import soundfile

from vitspeech.data.audio.continuous import TRANSCRIPTS, list_speech, speech_split, split_of_speaker
from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, read_audio, read_clip
from vitspeech.data.clips.folder import word_recordings
from vitspeech.data.clips.silence import NOISE, noise_files

SPEECH_KBIT_S, NOISE_KBIT_S = 9, 12
SPEECH_H = {"train": 0.9, "validation": 1.0}  # of read sentences
CLIPS = {"train": 900, "validation": 200}  # single words
TOGETHER = 20  # single words of a recording
NOISE_S = 40  # of each recording


def write(file: Path, samples: numpy.ndarray, kbit_s: int = SPEECH_KBIT_S) -> None:
    """Write int16 samples as Opus; soundfile takes a compression level, which libsndfile makes 6 to 256 kbit/s of."""
    file.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(
        file, samples, SAMPLE_RATE_HZ, format="OGG", subtype="OPUS", compression_level=1 - (kbit_s - 6) / 250
    )


def sentences(root: Path, folder: Path, split: str) -> None:
    """Sentences of all speakers of the split by turns, until there are enough hours."""
    by_speaker = defaultdict(list)
    for item in speech_split(list_speech(root), split):
        by_speaker[item.speaker].append(item)
    turns = (some[turn] for turn in range(1000) for some in by_speaker.values() if turn < len(some))
    seconds, lines = 0.0, defaultdict(list)
    for item in turns:
        samples = read_audio(item.file)
        speaker, chapter, _ = item.file.stem.split("-")
        write(folder / speaker / chapter / f"{item.file.stem}.opus", samples.numpy())
        lines[folder / speaker / chapter / f"{speaker}-{chapter}{TRANSCRIPTS}"].append(
            f"{item.file.stem} {' '.join(item.words)}"
        )
        seconds += len(samples) / SAMPLE_RATE_HZ
        if seconds >= 3600 * SPEECH_H[split]:
            break
    for file, rows in lines.items():
        file.write_text("\n".join(sorted(rows)) + "\n")
    print(f"{split}: {seconds / 3600:.2f} h of {len(by_speaker)} speakers")


def single_words(root: Path, folder: Path, split: str) -> None:
    """Single words, as many of each as there are, one after another; each recording is a speaker of the split."""
    by_word = defaultdict(list)
    for item in word_recordings(root)[split]:
        by_word[item.label].append(item)
    words = [some[turn] for turn in range(1000) for some in by_word.values() if turn < len(some)][: CLIPS[split]]
    words = [words[number] for number in numpy.random.default_rng(0).permutation(len(words))]
    names = (name for name in map("words{}".format, range(10_000)) if split_of_speaker(name) == split)
    for name, first in zip(names, range(0, len(words), TOGETHER), strict=False):
        part = words[first : first + TOGETHER]
        samples = numpy.concatenate([read_clip(item.file).numpy() for item in part])
        write(folder / name / "0" / f"{name}-0-0.opus", samples)
        (folder / name / "0" / f"{name}-0{TRANSCRIPTS}").write_text(
            f"{name}-0-0 {' '.join(item.label for item in part)}\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    commands = args.root / "SpeechCommands" / "speech_commands_v0.02"
    for split in SPEECH_H:
        sentences(args.root / "LibriSpeech" / "train-clean-5", args.folder / "speech", split)
        single_words(commands, args.folder / "speech", split)
    for name, file in noise_files(commands / NOISE).items():
        samples = read_audio(file)[: NOISE_S * SAMPLE_RATE_HZ].numpy()
        write(args.folder / "noise" / f"{Path(name).stem}.opus", samples, NOISE_KBIT_S)
    files = [file for file in args.folder.rglob("*") if file.is_file()]
    print(f"{len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
