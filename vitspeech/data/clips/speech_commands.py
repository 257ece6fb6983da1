"""Google Speech Commands (Warden 2018, arXiv:1804.03209) in torchaudio's folder layout."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from torchaudio.datasets import SPEECHCOMMANDS
from tqdm import tqdm

from vitspeech.data.audio.reading import read_audio, read_clip, read_clips
from vitspeech.data.batches import Items, default_root
from vitspeech.data.clips.module import WaveformAugment, WaveformData
from vitspeech.data.utterances.word_clips import WordClip, WordSource, word_span

FOLDER, URL = "SpeechCommands", "speech_commands_v0.02"
WORDS = tuple(
    "backward bed bird cat dog down eight five follow forward four go happy house learn left marvin nine no off on one "
    "right seven sheila six stop three tree two up visual wow yes zero".split()
)
UNKNOWN, SILENCE, NOISE = "unknown", "silence", "_background_noise_"
LISTS = {"validation": "validation_list.txt", "test": "testing_list.txt"}
PARTS = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0)}  # of each noise recording, apart in time
FIXED = 20_261_121  # seed of what is drawn once and for all: which unknown words, where silence is cut


class SpeechCommands(WaveformData, WordSource):
    """One-second clips of single words, 16 kHz, in the official splits (no speaker is in two of them).

    With `unknown` and `silence` it is the set's recognition task: words of the set that are not in `words`, and cuts
    from `_background_noise_` of random loudness, each as large as this share of the words' clips (fewer where there are
    fewer). Every split cuts its own part of the recordings of noise; the training part is also what `WaveformAugment`
    mixes in. What is drawn is the same whatever the seed.

    Args:
        words: Labels; `None` is all 35.
        root: Folder that holds `SpeechCommands/speech_commands_v0.02`; `None` is VITSPEECH_DATA, else `data`.
        unknown: Clips of the label `unknown` for each clip of a word; 0 leaves the label out. Official: 0.1.
        silence: Clips of the label `silence`, likewise.
        batch: Clips a training batch, on each device.
        download: Fetch the data set into `root` if it is not there.
        augment: What happens to training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If a word is not in the set or twice in `words`, a share is negative, a word's folder is empty, or a
            list names a clip that is not there.
        FileNotFoundError: If the data set is not in `root`.
    """

    def __init__(
        self,
        words: Sequence[str] | None = None,
        root: str | None = None,
        *,
        unknown: float = 0.0,
        silence: float = 0.0,
        batch: int = 128,
        download: bool = False,
        augment: WaveformAugment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seconds=1.0, batch=batch, augment=augment, seed=seed)
        self.words = list(WORDS if words is None else words)
        strange = sorted(set(self.words) - set(WORDS))
        if strange or not self.words or len(set(self.words)) < len(self.words):
            reason = f"{', '.join(strange)} not in the set" if strange else "none, or one twice"
            raise ValueError(f"words: {reason}; known: {', '.join(WORDS)}")
        if unknown < 0 or silence < 0:
            raise ValueError(f"unknown={unknown} or silence={silence} is negative")
        self.shares = {label: share for label, share in {UNKNOWN: unknown, SILENCE: silence}.items() if share}
        self.labels = [*self.words, *self.shares]
        self.root, self.download = Path(default_root(root)), download
        self.folder = self.root / FOLDER / URL

    def prepare_data(self) -> None:
        """Fetch the set if that was asked for, and see that it is there; one process of a machine does it."""
        if self.download:
            self.root.mkdir(parents=True, exist_ok=True)
            SPEECHCOMMANDS(self.root, url=URL, folder_in_archive=FOLDER, download=True)
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"{self.folder}: Speech Commands is not there; give the folder that holds {FOLDER}/ by --data.root "
                "(--data.source.root) or VITSPEECH_DATA, or fetch it with --data.download true"
            )

    def setup(self, stage: str | None = None) -> None:
        """Find and read every clip of every split, so that a broken one is known before training."""
        if not hasattr(self, "train"):
            self.read("test")  # and put away
        super().setup(stage)

    def read(self, split: str) -> Dataset:
        self.prepare_noise()
        files = self.files[split]
        words = [(file, self.words.index(file.parent.name)) for file in files if file.parent.name in self.words]
        others = [file for file in files if file.parent.name not in self.words]
        for label, found in (("the words", words), (UNKNOWN, others)):
            if not found and (label != UNKNOWN or UNKNOWN in self.shares):
                raise ValueError(f"{self.folder}: no clip of {label} is for {split}")
        found = words + [(file, self.labels.index(UNKNOWN)) for file in self.drawn(others, len(words))]
        clips = read_clips([file for file, _ in found], self.samples, progress=f"reading {split}")
        labels = [label for _, label in found]
        if SILENCE in self.shares:
            cuts = self.silence(split, round(self.shares[SILENCE] * len(words)))
            clips, labels = torch.cat((clips, cuts)), labels + [self.labels.index(SILENCE)] * len(cuts)
        return Items(clips, torch.tensor(labels))

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips of `words`, as long as they are; the speaker is the first part of a file's name."""
        self.prepare_noise()
        files = [file for file in self.files[split] if file.parent.name in self.words]
        clips = []
        for file in tqdm(files, f"reading {split}", disable=len(files) < 500, leave=False):
            samples = read_clip(file, self.sample_rate_hz).numpy()
            name = file.relative_to(self.folder).as_posix()
            clips.append(WordClip(name, file.parent.name, file.name.partition("_")[0], samples, *word_span(samples)))
        return clips

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        self.prepare_noise()
        if not self.recordings:
            return {"hiss": part(self.noise, split)}
        return {name: part(recording, split) for name, recording in self.recordings.items()}

    def prepare_noise(self) -> None:
        """List the splits and read the recordings of noise, once."""
        if hasattr(self, "files"):
            return
        self.prepare_data()
        self.files = listed(self.folder, self.words)
        recordings = sorted((self.folder / NOISE).glob("*.wav"))
        self.recordings = {file.stem: read_audio(file) for file in recordings}
        if recordings:
            for file, recording in zip(recordings, self.recordings.values(), strict=True):
                cut_from = list(PARTS) if SILENCE in self.shares else ["train"]
                if any(len(part(recording, split)) < self.samples for split in cut_from):
                    lasts_s = len(recording) / self.sample_rate_hz
                    raise ValueError(
                        f"{file}: lasts {lasts_s:.3g} s; a tenth of it for each of {', '.join(LISTS)}, "
                        f"and the rest for training, must hold a clip of {self.seconds:g} s"
                    )
            self.noise = torch.cat([part(recording, "train") for recording in self.recordings.values()])
        elif SILENCE in self.shares:
            raise FileNotFoundError(f"{self.folder / NOISE}: no recordings to cut silence from")

    def drawn(self, others: list[Path], words: int) -> list[Path]:
        """As many of the other words' clips as `unknown` asks for, at most all."""
        count = min(round(self.shares.get(UNKNOWN, 0) * words), len(others))
        order = torch.randperm(len(others), generator=torch.Generator().manual_seed(FIXED))
        return [others[place] for place in order[:count].sort().values]

    def silence(self, split: str, count: int) -> Tensor:
        """Cuts from the split's part of the noise, from inaudible to as loud as recorded: int16 (count, N)."""
        generator = torch.Generator().manual_seed(FIXED)
        cuts = torch.empty(count, self.samples, dtype=torch.int16)
        parts = [part(recording, split) for recording in self.recordings.values()]
        for row in cuts:
            noise = parts[int(torch.randint(len(parts), (), generator=generator))]
            start = int(torch.randint(len(noise) - self.samples + 1, (), generator=generator))
            row.copy_(noise[start : start + self.samples] * torch.rand((), generator=generator))
        return cuts


def listed(folder: Path, words: Sequence[str]) -> dict[str, list[Path]]:
    """The clips of each split, in order of their names: as the two lists say, and the rest for training.

    Raises:
        FileNotFoundError: If a list or a word's folder is missing.
        ValueError: If a list names a clip that is not there, or a word's folder is empty.
    """
    clips = {path.relative_to(folder).as_posix(): path for path in sorted(folder.glob("[!_]*/*.wav"))}
    spoken = {name.partition("/")[0] for name in clips}
    for word in words:
        if not (folder / word).is_dir():
            raise FileNotFoundError(f"{folder / word}: no such folder; the word {word!r} has no clips")
        if word not in spoken:
            raise ValueError(f"{folder / word}: no clip of this word (.wav)")
    splits, named = {}, set()
    for split, list_name in LISTS.items():
        listing = folder / list_name
        if not listing.is_file():
            raise FileNotFoundError(f"{listing}: missing; it says which clips are for {split}")
        numbered = enumerate(map(str.strip, listing.read_text().splitlines()), 1)
        names = {name: number for number, name in numbered if name}
        for name, number in names.items():
            if name not in clips:
                raise ValueError(f"{listing}: line {number} names {name}, which is not there")
            if name in named:
                raise ValueError(f"{listing}: line {number} names {name}, which another list names, too")
        splits[split] = [clips[name] for name in names]
        named.update(names)
    return {"train": [path for name, path in clips.items() if name not in named]} | splits


def part(recording: Tensor, split: str) -> Tensor:
    """The split's own stretch of a recording of noise."""
    start, end = PARTS[split]
    return recording[round(start * len(recording)) : round(end * len(recording))]
