"""Lay out the recordings that `configs/speech_encoder.yaml` is trained on: read sentences, single words, spoken text.

python docs/results/speech_encoder.py ROOT ROOT/speech_encoder    # ROOT has LibriSpeech/ and SpeechCommands/; a minute

The folder gets train.csv, validation.csv and test.csv, and the synthesized recordings. The other recordings stay where
they are. Speakers of sentences are those of `vitspeech.data.audio.continuous.speech_split`, as for a spotter; those of
single words are of the official splits. The words in `UNHEARD` are left out: spotters of them show what the encoder is
worth for words that it has not heard.
"""

import argparse
import csv
import os
from pathlib import Path

import soundfile
import torch
from tqdm import tqdm

from vitspeech.data.audio.continuous import Speech, list_speech, speech_split
from vitspeech.data.audio.synthesis import SAMPLE_RATE_HZ, Synthesizer, draw_voice
from vitspeech.data.clips.folder import word_recordings

UNHEARD = {
    *("backward", "bird", "dog", "follow", "forward", "house", "learn", "marvin", "nine"),
    *("seven", "sheila", "six", "tree", "visual", "wow", "on", "off"),
}
SPOKEN = 4000  # synthesized recordings
LONGEST = 8  # words of one
SAID_SHARE = 3  # of the single words every third one, so that half of the time is sentences


def read(recordings: list[Speech]) -> list[tuple[Path, str, str]]:
    return [(item.file, " ".join(item.words), item.speaker) for item in recordings]


def said(files: list) -> list[tuple[Path, str, str]]:
    return [(item.file, item.label, item.speaker) for item in files if item.label not in UNHEARD]


def spoken(recordings: list[Speech], folder: Path) -> list[tuple[Path, str, str]]:
    """Parts of the transcripts, of one to `LONGEST` words, by eSpeak NG in many voices."""
    generator, rows = torch.Generator().manual_seed(0), []
    with Synthesizer() as synthesizer:
        for number in tqdm(range(SPOKEN), "speaking"):
            words = recordings[int(torch.randint(len(recordings), (), generator=generator))].words
            count = min(int(torch.randint(1, LONGEST + 1, (), generator=generator)), len(words))
            first = int(torch.randint(len(words) - count + 1, (), generator=generator))
            text, voice = " ".join(words[first : first + count]), draw_voice("train", generator)
            file = folder / f"{number:05}.flac"
            sound = synthesizer.speak(text, voice)
            edge = sound.new_zeros(SAMPLE_RATE_HZ // 4)
            soundfile.write(file, torch.cat((edge, sound, edge)).numpy(), SAMPLE_RATE_HZ)
            rows.append((file, text, f"{voice.language} {voice.variant}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    speech = list_speech(args.root / "LibriSpeech" / "train-clean-5")
    words = word_recordings(args.root / "SpeechCommands" / "speech_commands_v0.02")
    (args.folder / "spoken").mkdir(parents=True, exist_ok=True)
    rows = {
        "train": [
            *read(speech_split(speech, "train")),
            *said(words["train"])[::SAID_SHARE],
            *spoken(speech_split(speech, "train"), args.folder / "spoken"),
        ],
        "validation": read(speech_split(speech, "validation")),
        "test": read(speech_split(speech, "test")),
    }
    for split, items in rows.items():
        with (args.folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("path", "transcript", "speaker"))
            writer.writerows((os.path.relpath(path, args.folder), *others) for path, *others in items)


if __name__ == "__main__":
    main()
