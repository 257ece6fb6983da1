"""Lay out the recordings that `configs/speech_encoder.yaml` is trained on: read sentences, single words, spoken text.

python docs/results/speech_encoder.py ROOT ROOT/speech_encoder VOICES    # ROOT has LibriSpeech/ and SpeechCommands/

VOICES is a folder of neural voices (`vitspeech.data.audio.neural_voices.NeuralVoices`), which take half an hour.
The other folder gets train.csv, validation.csv and test.csv, and the synthesized recordings. The rest stays where it
is. Speakers of sentences are split as for a spotter (`vitspeech.data.audio.continuous.speech_split`): it chooses
its thresholds on speakers whom the encoder has not heard. Speakers of single words are those of the official splits.
The words in `UNHEARD` are left out: spotters of them show what the encoder is worth for words that it has not heard.
"""

import argparse
import csv
import os
from pathlib import Path

import soundfile
import torch
from tqdm import tqdm

from vitspeech.data.audio.continuous import Speech, list_speech, speech_split
from vitspeech.data.audio.neural_voices import COPIES, NeuralVoices
from vitspeech.data.audio.reading import read_audio
from vitspeech.data.audio.synthesis import SAMPLE_RATE_HZ, Synthesizer, draw_voice
from vitspeech.data.audio.vocabulary import further_words, vocabulary
from vitspeech.data.clips.folder import word_recordings
from vitspeech.data.utterances.augment import change_speed

UNHEARD = {
    *("backward", "bird", "dog", "follow", "forward", "house", "learn", "marvin", "nine"),
    *("seven", "sheila", "six", "tree", "visual", "wow", "on", "off"),
}
SPOKEN = 8_000  # recordings by eSpeak NG: half of them say parts of the sentences, half say words of a list
VOICED = 1_000  # the same by neural voices, each at four speeds
LONGEST = 8  # words of one
SPEEDS = (0.9, 1.1)  # of further copies of the sentences (Ko et al. 2015), so that half of the time is sentences
FASTEST = 20  # letters per second


def read(recordings: list[Speech]) -> list[tuple[Path, str, str]]:
    return [(item.file, " ".join(item.words), item.speaker) for item in recordings]


def said(files: list) -> list[tuple[Path, str, str]]:
    return [(item.file, item.label, item.speaker) for item in files if item.label not in UNHEARD]


def texts(sentences: list[tuple[Path, str, str]], count: int, generator: torch.Generator) -> list[str]:
    """Parts of the sentences, and words of the list, one to `LONGEST` of them, in turn."""
    listed, found = [word for word in (*vocabulary("train"), *further_words()) if word not in UNHEARD], []

    def draw(count: int) -> int:
        return int(torch.randint(count, (), generator=generator))

    for number in range(count):
        length = 1 + draw(LONGEST)
        if number % 2:
            words = [listed[draw(len(listed))] for _ in range(length)]
        else:
            words = sentences[draw(len(sentences))][1].split()
            first = draw(max(1, len(words) - length + 1))
            words = words[first : first + length]
        found.append(" ".join(words))
    return found


def write(file: Path, sound: torch.Tensor) -> None:
    """Write a recording with a quarter of a second of silence on both sides."""
    edge = sound.new_zeros(SAMPLE_RATE_HZ // 4)
    soundfile.write(file, torch.cat((edge, sound, edge)).numpy(), SAMPLE_RATE_HZ)


def spoken(sentences: list[tuple[Path, str, str]], folder: Path) -> list[tuple[Path, str, str]]:
    """Texts by eSpeak NG in many voices."""
    generator, rows = torch.Generator().manual_seed(0), []
    with Synthesizer() as synthesizer:
        for number, text in enumerate(tqdm(texts(sentences, SPOKEN, generator), "eSpeak NG")):
            voice, file = draw_voice("train", generator), folder / f"{number:05}.flac"
            write(file, synthesizer.speak(text, voice))
            rows.append((file, text, f"{voice.language} {voice.variant}"))
    return rows


def voiced(sentences: list[tuple[Path, str, str]], folder: Path, voices: Path) -> list[tuple[Path, str, str]]:
    """Texts by neural voices, each utterance at several speeds."""
    generator, rows = torch.Generator().manual_seed(1), []
    said = [text for text in texts(sentences, VOICED, generator) for _ in range(COPIES)]
    for number, (speaker, sound) in enumerate(NeuralVoices(voices).synthesize(said, "train", generator)):
        file = folder / f"{number:05}.flac"
        if len(said[number]) < FASTEST * len(sound) / SAMPLE_RATE_HZ:
            write(file, sound)
            rows.append((file, said[number], speaker))
    return rows


def at_other_speeds(sentences: list[tuple[Path, str, str]], folder: Path) -> list[tuple[Path, str, str]]:
    """Copies of the sentences, without those that are too fast for CTC at one token every 40 ms."""
    rows = []
    for path, text, speaker in tqdm(sentences, "sentences at other speeds"):
        sound = read_audio(path) / 32768
        for speed in SPEEDS:
            file, copy = folder / f"{path.stem}-{speed}.flac", change_speed(sound, speed)
            if len(text) < FASTEST * len(copy) / SAMPLE_RATE_HZ:
                soundfile.write(file, copy.numpy(), SAMPLE_RATE_HZ)
                rows.append((file, text, speaker))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("voices", type=Path)
    args = parser.parse_args()
    speech = list_speech(args.root / "LibriSpeech" / "train-clean-5")
    words = word_recordings(args.root / "SpeechCommands" / "speech_commands_v0.02")
    for name in ("spoken", "voiced", "speeds"):
        (args.folder / name).mkdir(parents=True, exist_ok=True)
    sentences = read(speech_split(speech, "train"))
    rows = {
        "train": [
            *sentences,
            *at_other_speeds(sentences, args.folder / "speeds"),
            *said(words["train"]),
            *spoken(sentences, args.folder / "spoken"),
            *voiced(sentences, args.folder / "voiced", args.voices),
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
