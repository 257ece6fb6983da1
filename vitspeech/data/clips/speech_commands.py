"""Google Speech Commands (Warden 2018, arXiv:1804.03209) in torchaudio's folder layout."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import read_clip
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.silence import (
    NOISE,
    SILENCE,
    UNKNOWN,
    cut_silence,
    different_words,
    fixed_choice,
    noise_part,
    read_noise,
    shares_of,
)
from vitspeech.data.downloads import check_complete, download_folder
from vitspeech.data.module import FILES, MEMORY, default_root
from vitspeech.data.rows import readable_files
from vitspeech.data.splits import relative_name
from vitspeech.data.utterances.word_clips import WordClip, WordSource, word_span
from vitspeech.errors import InputError
from vitspeech.files import read_text
from vitspeech.torch_audio import SPEECHCOMMANDS

FOLDER, URL = "SpeechCommands", "speech_commands_v0.02"
ADDRESS = f"http://download.tensorflow.org/data/{URL}.tar.gz"
WORDS = tuple(
    "backward bed bird cat dog down eight five follow forward four go happy house learn left marvin nine no off on one "
    "right seven sheila six stop three tree two up visual wow yes zero".split()
)
SPLITS = ("train", "validation", "test")
MOST_BYTES = 2**26  # of a list
LISTS = {"validation": "validation_list.txt", "test": "testing_list.txt"}


class SpeechCommands(WaveformData, WordSource):
    """One-second clips of single words, 16 kHz, in the official splits, which share no speakers.

    `unknown` and `silence` add the two further labels of the data set's recognition task: words of the data set that
    are not in `words`, and cuts from `_background_noise_` at levels from -60 to -15 dBFS. Each noise recording is
    divided in time between the splits; the training part is also the noise that `WaveformAugment` mixes in. The
    selection is the same for every seed. In training, clips of `silence` are new in every batch: stretches of the
    training part or synthesized noise, at the same levels and, a quarter of them, down to zeros. Every tenth clip, of
    any label, is shifted by a constant then.

    Args:
        words: Labels; `None` is all 35 words.
        root: Folder that contains `SpeechCommands/speech_commands_v0.02`; `None` is VITSPEECH_DATA, else `data`.
        unknown: Number of clips labeled `unknown` per clip of a word, as far as there are enough; 0 omits the label.
            The official value is 0.1.
        silence: Number of clips labeled `silence` per clip of a word; 0 omits the label.
        download: Download the data set into `root` if it is missing.
        **options: Those of `WaveformData`: `batch`, `augment`, `seed`, `storage`, `workers` and `broken`.
    """

    storages = (MEMORY, FILES)

    def __init__(
        self,
        words: Sequence[str] | None = None,
        root: str | None = None,
        *,
        unknown: float = 0.0,
        silence: float = 0.0,
        download: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(seconds=1.0, **options)
        self.words, self.extra_ratios = different_words(WORDS if words is None else words), shares_of(unknown, silence)
        if foreign := sorted(set(self.words) - set(WORDS)):
            raise InputError(f"words: {', '.join(foreign)} not in the data set; known: {', '.join(WORDS)}")
        self.labels, self.makes_silence = [*self.words, *self.extra_ratios], SILENCE in self.extra_ratios
        self.root, self.download = Path(default_root(root)), download
        self.folder = self.item_root = self.root / FOLDER / URL
        self.left_out: set[Path] = set()  # broken files

    def prepare_data(self) -> None:
        """Download the data set if asked to, and check that it exists; every process of a run calls this."""
        if self.download:
            options = {"url": URL, "folder_in_archive": FOLDER, "download": True}
            download_folder(self.folder, partial(SPEECHCOMMANDS, self.root, **options), ADDRESS)
        check_complete(self.folder)
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"{self.folder}: Speech Commands is missing; pass the folder that contains {FOLDER}/ by VITSPEECH_DATA "
                "or --data.root (of a source: --data.source.root; evaluate, compare: --data), or download it with "
                "`vitspeech train ... --data.download true`"
            )

    def read(self, split: str) -> Dataset:
        word_files, unknown_files = self.select(split)
        labels = [self.words.index(file.parent.name) for file in word_files]
        labels += [self.labels.index(UNKNOWN) for _ in unknown_files]
        files = word_files + unknown_files
        clips, places = self.clips_of(files, split)
        self.left_out |= {*files} - {files[place] for place in places}
        labels = [labels[place] for place in places]
        speakers = [speaker(files[place]) for place in places]
        if SILENCE in self.extra_ratios:
            count = round(self.extra_ratios[SILENCE] * len(word_files))
            cuts, recordings = cut_silence(self.noise_recordings, split, count, self.samples)
            if isinstance(clips, Tensor):
                clips = torch.cat((clips, cuts))
            else:
                clips.files = [*clips.files, *cuts]
            labels += [self.labels.index(SILENCE)] * len(cuts)
            speakers += recordings  # cuts of one recording resemble each other as clips of one speaker do
        return TensorItems(clips, torch.tensor(labels), speakers)

    def select(self, split: str) -> tuple[list[Path], list[Path]]:
        """The files of the split's clips of words, and of those labeled `unknown`."""
        self.prepare()
        files = self.files[split]
        word_files = [file for file in files if file.parent.name in self.words]
        other_files = [file for file in files if file.parent.name not in self.words]
        count = min(round(self.extra_ratios.get(UNKNOWN, 0) * len(word_files)), len(other_files))
        return word_files, fixed_choice(other_files, count)

    @property
    def heard_words(self) -> list[str]:
        """The words whose recordings training hears as `unknown`; a card has them."""
        return sorted({file.parent.name for file in self.select("train")[1]})

    def item_names(self) -> dict[str, list[str]]:
        files = {split: [file for part in self.select(split) for file in part] for split in SPLITS}
        return {
            split: [relative_name(file, self.folder) for file in some if file not in self.left_out]
            for split, some in files.items()
        }

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips of `words` in full length. The speaker is the first part of the file name."""
        self.prepare()
        files = [file for file in self.files[split] if file.parent.name in self.words]

        def read(file: Path) -> WordClip:
            samples = read_clip(file).numpy()
            name = relative_name(file, self.folder)
            return WordClip(name, file.parent.name, speaker(file), samples, *word_span(samples))

        return readable_files(files, read, split, verb="reading")[1]

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        self.prepare()
        if not self.noise_recordings:
            return {"hiss": noise_part(self.noise, split)}
        return {name: noise_part(recording, split) for name, recording in self.noise_recordings.items()}

    def prepare(self) -> None:
        """List the files of each split and read the noise recordings, once."""
        if hasattr(self, "files"):
            return
        self.prepare_data()
        self.files = list_clips(self.folder, self.words)
        self.noise_recordings = read_noise(self.folder / NOISE, self.samples, SILENCE in self.extra_ratios)
        if self.noise_recordings:
            self.noise = torch.cat([noise_part(recording, "train") for recording in self.noise_recordings.values()])
        elif SILENCE in self.extra_ratios:
            raise FileNotFoundError(f"{self.folder / NOISE}: no recordings to cut silence from")


def speaker(file: Path) -> str:
    """The speaker of a clip: the first part of its file name."""
    return file.name.partition("_")[0]


def list_clips(folder: Path, words: Sequence[str]) -> dict[str, list[Path]]:
    """List the clips of each split: those of the two official lists, in their order, and the rest for training."""
    clips = {path.relative_to(folder).as_posix(): path for path in sorted(folder.glob("[!_]*/[!.]*.wav"))}
    if missing := set(words) - {name.partition("/")[0] for name in clips}:
        raise FileNotFoundError(f"{folder}: no clips (.wav) of {', '.join(sorted(missing))}")
    splits, listed_names = {}, set()
    for split, list_name in LISTS.items():
        names = list(filter(None, map(str.strip, read_text(folder / list_name, most_bytes=MOST_BYTES).splitlines())))
        for name in names:
            if name not in clips or name in listed_names:
                raise InputError(f"{folder / list_name}: {name} does not exist, or is in another list, too")
        splits[split] = [clips[name] for name in dict.fromkeys(names)]
        listed_names.update(names)
    return {"train": [path for name, path in clips.items() if name not in listed_names]} | splits
