"""Keywords among everything else that a microphone hears: the data set to train a keyword spotter on."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.background import background_folder
from vitspeech.data.audio.continuous import Speech
from vitspeech.data.audio.neural_voices import NeuralVoices
from vitspeech.data.audio.reading import fit_length, readable_clips
from vitspeech.data.audio.similar_words import check_words, spoken_negatives, warn_of_parts
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.folder import warn_of_words, word_recordings
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import (
    NOISE,
    SILENCE,
    UNKNOWN,
    cut_silence,
    different_words,
    fixed_choice,
    noise_part,
    read_noise,
)
from vitspeech.data.clips.spoken_words import speaker, split_generator, synthesize_split
from vitspeech.data.keywords.items import ALTERED, SILENT, SPEECH, KeywordItems, read_speech, training_speech
from vitspeech.data.labeled_files import LabeledFile
from vitspeech.data.module import default_root
from vitspeech.data.splits import relative_name
from vitspeech.data.utterances.word_clips import around_word, is_said_twice, word_span
from vitspeech.errors import InputError, check_number

SPEECH_FOLDER = "_speech_"  # of continuous speech, in the folder of the words' recordings
BATCHES, SMALLEST, LARGEST = 8, 16, 128  # an epoch has so many batches if `batch` is None, of a size within the others
MOST_SHARE, MOST_SPOKEN = 100, 100_000
ESPEAK = "espeak"  # the voices that need no folder
HELD_OUT_SHARE = 5  # a keyword without recordings in validation or test has a fifth of its synthesized clips there


class Keywords(WaveformData):
    """Clips of keywords, of everything that is not one (`unknown`), and of noise (`silence`).

    A keyword spotter meets its words rarely and everything else all day. `unknown` therefore has these sources, each
    with a number of training clips per clip of a keyword, or of `least_clips` if there are fewer clips of keywords:

    - `others`: recordings of other words, which are all folders but those of `words`;
    - `altered`: halves of two keywords joined, a keyword reversed, or half of one, new in every batch;
    - `spoken`: words synthesized by eSpeak NG in many voices, those that sound like a keyword first;
    - `speech_cuts`: cuts of continuous speech where its transcript has no keyword, new in every batch.

    Clips of `silence` are new in every batch, as in `SpeechCommands`, from zeros to loud noise. The recordings are laid
    out and split as `AudioFolder` describes, but none are held out for the test if each keyword has fewer than 20. The
    folder of Speech Commands has its official splits. A phrase may have underscores in the name of its folder.
    Recordings longer than a clip are cut with the word in the middle. If a word has fewer recordings than synthesized
    clips, they are repeated until they are as many, each time augmented anew;
    otherwise a human voice would mean `unknown`, which is learned from human speech. Speech is split by speaker, and
    only training speakers are heard. Validation and test have the recordings of keywords and of other words, and noise.
    This is outlier exposure (Hendrycks et al. 2019, arXiv:1812.04606).

    Args:
        words: The keywords; these, `unknown` and `silence` are the labels.
        root: Folder of the data; `None` is VITSPEECH_DATA, else `data`.
        recordings: Folder in `root` with one folder of recordings per word; `None` if there are only synthesized
            clips. Its folder `_background_noise_` may have noise.
        speech: Folder in `root` with continuous speech, with transcripts as in LibriSpeech or without; `None` is the
            folder `_speech_` of the recordings, if there is one.
        language: What synthesized voices speak: one of eSpeak NG's languages or accents, such as `en`, `de` or `en-us`.
        voices: What speaks the keywords: `espeak`, or a folder in `root` with Piper voices or Kokoro-82M, which
            `NeuralVoices` describes; it needs the extra `voices`. A quarter of the clips are spoken, and each is heard
            at four speeds. With fewer than three speakers, validation and test are spoken by eSpeak NG.
        background: Whether the speech and the noise that come with vitspeech are heard, too: sentences of LibriSpeech,
            words of Speech Commands and its noise recordings (`checkpoints/background`).
        synthesized: Synthesized training clips of each keyword. Validation and test have a fifth of them each, of the
            keywords of which they have no recordings.
        others: Recordings of other words per clip of a keyword, as far as there are enough.
        altered: Altered keywords per clip of a keyword.
        spoken: Synthesized other words per clip of a keyword.
        speech_cuts: Cuts of continuous speech per clip of a keyword, if there is speech.
        silence: Clips of noise per clip of a keyword.
        mined: Share of the cuts of speech that are taken where the network, after a quarter, a half and three quarters
            of the training, finds a keyword most likely (hard negatives, Sung and Poggio 1998, doi:10.1109/34.655648).
        least_clips: Clips of keywords that these numbers are for if there are fewer: what a spotter must reject does
            not depend on how many words it knows.
        held_out_words: Other words whose recordings are in validation and test only, and which are not synthesized
            either: truly unknown words. Continuous speech may have them.
        speech_hours: Longest duration of the speech in training, in hours; `None` takes all.
        seconds: Length of a clip. Phrases may need more than a second.
        broken: The largest share of the recordings of a split, and of the speech, that may be broken; see `DataModule`.
        batch: Clips of an optimizer step, on all devices together; `None`: eight steps an epoch, of 16 to 128 clips.
        augment: Augmentation of training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
    """

    makes_silence = True

    def __init__(
        self,
        words: Sequence[str],
        root: str | None = None,
        *,
        recordings: str | None = ".",
        speech: str | None = None,
        language: str = "en",
        voices: str = ESPEAK,
        background: bool = False,
        synthesized: int = 0,
        others: float = 0.5,
        altered: float = 0.3,
        spoken: float = 0.0,
        speech_cuts: float = 0.7,
        silence: float = 0.1,
        mined: float = 0.0,
        least_clips: int = 0,
        held_out_words: Sequence[str] = (),
        speech_hours: float | None = None,
        seconds: float = 1.0,
        broken: float = 0.0,
        batch: int | None = None,
        augment: WaveformAugment | None = None,
        seed: int = 0,
    ) -> None:
        size = LARGEST if batch is None else batch
        super().__init__(seconds=seconds, batch=size, augment=augment, seed=seed, broken=broken)
        self.words, self.held_out_words = different_words(words), set(held_out_words)
        shares = {
            "others": others,
            "altered": altered,
            "spoken": spoken,
            "silence": silence,
            "speech_cuts": speech_cuts,
        }
        for name, share in shares.items():
            check_number(name, share, 0, MOST_SHARE)
        check_number("mined", mined, 0, 1)
        check_number("synthesized", synthesized, 0, MOST_SPOKEN)
        check_number("least_clips", least_clips, 0, MOST_SPOKEN)
        if speech_hours is not None:
            check_number("speech_hours", speech_hours, 0.0003)  # a clip
        if recordings is None and not synthesized:
            raise InputError("recordings=None and synthesized=0: there are no clips of the words; give one of them")
        self.labels = [*self.words, UNKNOWN, SILENCE]
        self.root = Path(default_root(root))
        self.folder = None if recordings is None else self.root / recordings
        self.item_root = self.folder
        own = None if speech is None else self.root / speech
        if speech is None and self.folder is not None and (self.folder / SPEECH_FOLDER).is_dir():
            own = self.folder / SPEECH_FOLDER
        self.background = background_folder() if background else None
        self.speech_folders = [own] if own else []
        if self.background:
            self.speech_folders.append(self.background / "speech")
        self.language, self.voices = language, None if voices == ESPEAK else self.root / voices
        self.shares, self.mined, self.synthesized, self.least_clips = shares, mined, synthesized, least_clips
        self.speech_hours, self.fits_batch, self.mined_epoch = speech_hours, batch is None, -1

    @cached_property
    def files(self) -> dict[str, list[LabeledFile]]:
        """The recordings of each split, of all words."""
        if self.folder is None:
            return {"train": [], "validation": [], "test": []}
        splits = word_recordings(self.folder, self.words, [*self.held_out_words])
        if any(item.label == SILENCE for item in splits["train"]):
            raise InputError(f"{self.folder / SILENCE}: put recordings of noise into {self.folder / NOISE}")
        heard = {item.label for item in splits["train"]}
        if missing := [word for word in self.words if word not in heard and not self.synthesized]:
            raise InputError(f"{self.folder}: no recordings of {', '.join(missing)}, and synthesized=0")
        warn_of_words(splits, self.words)
        return splits

    @property
    def recorded(self) -> Counter[str]:
        """The number of training recordings of each keyword."""
        return Counter(item.label for item in self.keyword_files("train"))

    @cached_property
    def recorded_noise(self) -> dict[str, Tensor]:
        """The noise recordings by name; none if there are none."""
        folders = [folder / name for folder, name in ((self.folder, NOISE), (self.background, "noise")) if folder]
        parts = [read_noise(folder, self.samples, splits=True) for folder in folders]
        return {name: noise for part in parts for name, noise in part.items()}

    def prepare_data(self) -> None:
        """Check that the recordings exist and, if words are synthesized, that they can be said and told apart."""
        if self.synthesized:
            check_words(self.words, self.language)
            if self.voices is not None:
                NeuralVoices(self.voices, self.language).check(self.words)
        else:
            warn_of_parts(self.words)
        _ = self.files

    def list_splits(self) -> dict[str, list[LabeledFile]]:
        """The recordings of each split that are items; those that turn out to be broken are taken out."""
        if self.folder is None:
            return {}
        return {split: [*self.keyword_files(split), *self.other_files(split)] for split in self.files}

    def keyword_files(self, split: str) -> list[LabeledFile]:
        """The recordings of keywords in a split."""
        return [item for item in self.files[split] if item.label in self.words]

    def other_files(self, split: str) -> list[LabeledFile]:
        """The recordings of other words in a split: in training a random choice that is always the same."""
        files = [item for item in self.files[split] if item.label not in self.words]
        if split != "train":
            return files
        files = [item for item in files if item.label not in self.held_out_words]
        return fixed_choice(files, min(self.count("others"), len(files)))

    @cached_property
    def heard_words(self) -> list[str]:
        """The words whose recordings training hears as `unknown`; a card has them."""
        return sorted({item.label for item in self.other_files("train")})

    def count(self, source: str) -> int:
        """The number of training clips of a source of `unknown`, or of `silence`."""
        return round(self.shares[source] * max(self.keyword_count, self.least_clips))

    @property
    def keyword_count(self) -> int:
        """The number of training clips of keywords."""
        repeats = self.repeats()
        recorded = sum(repeats[item.label] for item in self.keyword_files("train"))
        return recorded + self.synthesized * len(self.words)

    def repeats(self) -> dict[str, int]:
        """How often an epoch has each recording of each keyword: until they are as many as its synthesized clips."""
        return {word: max(self.synthesized // count, 1) for word, count in self.recorded.items()}

    def read(self, split: str) -> Dataset:
        noises = self.recorded_noise or {"pink": pink_noise(self.samples)}
        self.noise = torch.cat([noise_part(recording, "train") for recording in noises.values()])
        speech = self.read_speech() if split == "train" else None  # first, so that errors come before words are spoken
        files = self.splits.get(split, [])

        def oddities(place: int, samples: Tensor) -> Iterator[str]:
            if files[place].label in self.words:
                yield from self.oddities(samples)

        options = {"split": split, "broken": self.broken, "fit": around_word, "oddities": oddities}
        kept, places = readable_clips([item.file for item in files], self.samples, **options)
        clips, files = [kept], [files[place] for place in places]
        if files:
            self.splits[split] = files
        repeats = self.repeats() if split == "train" else {}
        if again := [index for index, item in enumerate(files) for _ in range(1, repeats.get(item.label, 1))]:
            clips, files = [torch.cat((clips[0], clips[0][again]))], [*files, *(files[index] for index in again)]
        labels = [self.label_of(item.label) for item in files]
        speakers = [item.speaker or relative_name(item.file, self.folder) for item in files]
        for texts, label_names in self.texts(split):
            spoken, voices = self.speak(texts, split, label_names[0])
            clips.append(spoken)
            labels += [self.label_of(name) for name in label_names]
            speakers += voices
        if split == "train":
            return self.training_items(torch.cat(clips), torch.tensor(labels), speakers, speech)
        keywords = sum(label < len(self.words) for label in labels)
        cuts, recordings = cut_silence(noises, split, max(round(self.shares[SILENCE] * keywords), 1), self.samples)
        parts = self.parts(files) if files else {}
        labels += [self.label_of(SILENCE)] * len(cuts)
        return TensorItems(torch.cat([*clips, cuts]), torch.tensor(labels), speakers + recordings, parts=parts)

    def oddities(self, samples: Tensor) -> Iterator[str]:
        """What is odd about a recording of a keyword, int16 (A,)."""
        if is_said_twice(samples.numpy()):
            yield "likely to have the word twice"
        if len(samples) > self.samples:
            start, end = word_span(samples.numpy())
            if end - start > self.samples and (start, end) != (0, len(samples)):
                yield f"of a word longer than a clip of {self.seconds:g} s, which keeps its middle; see --data.seconds"

    def parts(self, files: Sequence[LabeledFile]) -> dict[str, list[int]]:
        """The items whose accuracy is reported besides: `unknown` words of training recordings, and `unheard` ones.

        A word without training recordings that is not held out may be synthesized, and is in neither part if words are.
        """
        heard = self.heard_words
        unheard = {item.label for item in files} - {*heard} if not self.shares["spoken"] else self.held_out_words
        others = {index: item.label for index, item in enumerate(files) if item.label not in self.words}
        parts = {
            UNKNOWN: [index for index, label in others.items() if label in heard],
            "unheard": [index for index, label in others.items() if label in unheard],
        }
        return {name: indices for name, indices in parts.items() if indices}

    def label_of(self, word: str) -> int:
        """The index of a word's label; that of `unknown` for other words."""
        return self.labels.index(word if word in self.labels else UNKNOWN)

    def texts(self, split: str) -> list[tuple[list[str], list[str]]]:
        """What is synthesized for a split, and the labels: in training keywords and other words."""
        if split != "train":
            recorded = {item.label for item in self.files[split]}
            keywords = [word for word in self.words if word not in recorded] * -(-self.synthesized // HELD_OUT_SHARE)
            return [(keywords, keywords)] if keywords else []
        keywords, count = self.words * self.synthesized, self.count("spoken")
        others = self.other_texts(count) if count else []
        return [(texts, names) for texts, names in ((keywords, keywords), (others, [UNKNOWN] * count)) if texts]

    def other_texts(self, count: int) -> list[str]:
        """Other words to synthesize, near-homophones of the keywords first; each again if there are too few.

        None is a held-out word or sounds like one.
        """
        said = {word for item in self.speech_recordings for word in item.words or ()}
        held_out = sorted(self.held_out_words)
        words = spoken_negatives(self.words, count, sorted(said), excluded=held_out, language=self.language)
        return [words[index % len(words)] for index in range(count)]

    def speak(self, texts: Sequence[str], split: str, label: str) -> tuple[Tensor, list[str]]:
        """Synthesize texts as clips by voices of the split: int16 (F, N), and the voice of each."""
        generator = split_generator(split, 0)
        neural = None if self.voices is None or label == UNKNOWN else NeuralVoices(self.voices, self.language)
        if neural and neural.speakers(split):
            spoken = neural.synthesize(texts, split, generator)
        else:
            spoken = [
                (speaker(voice), sound) for voice, sound in synthesize_split(texts, split, generator, self.language)
            ]
        voices, sounds = zip(*spoken, strict=True)
        return torch.stack([fit_length(sound, self.samples) for sound in sounds]), list(voices)

    def training_items(self, clips: Tensor, labels: Tensor, speakers: list[str], speech: Tensor) -> KeywordItems:
        """The training clips, and how many are made anew for every batch."""
        made = {ALTERED: self.count("altered"), SILENT: max(self.count("silence"), 1)}
        if len(speech):
            made[SPEECH] = self.count("speech_cuts")
        items = KeywordItems(clips, labels, speakers, made=made, words=len(self.words), speech=speech, mined=self.mined)
        if self.fits_batch:
            self.batch = min(max(len(items) // BATCHES, SMALLEST), LARGEST, len(items))
        return items

    @cached_property
    def speech_recordings(self) -> list[Speech]:
        """The training speakers' recordings of continuous speech, if there are folders of speech."""
        return [item for folder in self.speech_folders for item in training_speech(folder)]

    def read_speech(self) -> Tensor:
        """The training speakers' continuous speech without keywords, one stretch after another: int16 (A,)."""
        if not self.speech_folders or not self.shares["speech_cuts"]:
            return torch.empty(0, dtype=torch.int16)
        most = None if self.speech_hours is None else round(self.speech_hours * 3600 * self.sample_rate_hz)
        limits = {"least": self.samples, "most": most, "broken": self.broken}
        return read_speech(self.speech_folders[0], self.speech_recordings, self.words, **limits)

    def mine(self, network: Callable[[Tensor], Tensor], epoch: int) -> None:
        """Find hard negatives in the speech at the beginning of an epoch; see `KeywordItems.mine`."""
        if self.mined and len(self.train.speech) and epoch != self.mined_epoch:
            self.train.mine(network)
            self.mined_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The hard negatives, for a run that is resumed within an epoch."""
        return {"hard": self.train.hard, "epoch": self.mined_epoch} if self.mined else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.train.hard, self.mined_epoch = state["hard"], state["epoch"]
