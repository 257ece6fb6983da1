"""The object that a user works with: a released model that takes files, images and sound, and saves itself."""

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from vitspeech.checkpoint import model as released
from vitspeech.checkpoint.build import build_network
from vitspeech.checkpoint.card import check_config
from vitspeech.command_line import one_line
from vitspeech.data.audio.reading import Notes, walk_audio
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError, some_names
from vitspeech.inference import predict as predicting
from vitspeech.inference import transcribe as transcribing
from vitspeech.inference.batches import is_single, read_recording, walk_inputs
from vitspeech.inference.label_stream import LabelStream, is_labeling
from vitspeech.inference.predict import PICTURE_AXES, SOUND_AXES, Prediction, run_clips
from vitspeech.inference.spotting import WordSpotter
from vitspeech.inference.stream import FULL_SCALE
from vitspeech.inference.transcript import Transcript, check_model, check_outputs, is_transcribing
from vitspeech.inference.transcript_stream import TranscriptStream
from vitspeech.lazy_names import nearest

KEPT = ("look_back_ms", "look_ahead_ms", "delay_ms", "weights_from")  # of a card, whatever the network learns
ELSEWHERE = {"from_pretrained": "vitspeech.load", "save_pretrained": "model.save", "generate": "model(inputs)"}
ELSEWHERE |= {"cuda": 'model.to("cuda")', "half": "torch.autocast", "listen": "model.stream().listen"}


class Model(released.Model):
    """A network with its labels and preprocessing: `vitspeech.load` returns it.

    `model(inputs)` does what the model is for: `predict`, `transcribe`, or of a model that labels frames the words with
    their times. `network` is the `nn.Module`, for tensors.
    """

    def __new__(cls, network: Any = None, *_: Any, **__: Any) -> Self:
        """Refuse a path in place of the network."""
        if isinstance(network, str | os.PathLike):
            raise InputError(f"a Model is made of a network; a folder is read by vitspeech.load({str(network)!r})")
        return super().__new__(cls)

    def __getattr__(self, name: str) -> Any:
        """Say who has an attribute that a model has not."""
        if hasattr(type(self), name):  # a property that raised this error, which it raises again
            return object.__getattribute__(self, name)
        hint = nearest(name, dir(self))
        if name in ELSEWHERE or hasattr(vars(self).get("network"), name):
            hint = f"; use {ELSEWHERE.get(name, f'model.network.{name}')}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """`predict` of a classifier, `transcribe` of a model that outputs transcripts, or words with their times."""
        if is_transcribing(self):
            return self.transcribe(inputs, **options)
        if not is_labeling(self):
            return self.predict(inputs, **options)
        heard = [[*self.stream().listen(one, **options)] for one in walk_inputs(inputs, SOUND_AXES, walk_audio)]
        return heard[0] if is_single(inputs, SOUND_AXES) else heard

    def predict(
        self, inputs: Any, *, top: int = 3, sample_rate: int | None = None, batch: int = predicting.BATCH
    ) -> Prediction | list[Prediction]:
        """Classify images or recordings.

        Args:
            inputs: A path, an image or sound; or a folder, a list or another iterable of these, which gives a list in
                the same order. An image is a PIL image, or an array or tensor of uint8 or of floats within 0..1,
                (H, W, 3), (3, H, W) or gray (H, W); four axes are several images. Sound is an array or tensor of
                int16 or of floats within ±1, (N,) or of two channels (N, 2) or (2, N), or `dataset[0]["audio"]` of the
                library `datasets`; three axes are several recordings.
            top: Number of labels in `Prediction.probabilities`.
            sample_rate: Sample rate of arrays in Hz, which are resampled; `None` is that of the model. Files and sounds
                of `datasets` state theirs.
            batch: Inputs per forward pass.

        Raises:
            FileNotFoundError: If a path does not exist, or a folder holds no file that the model takes.
            InputError: If an input can't be read, or the model is not a classifier. The message says what to use.
        """
        options = {"top": top, "sample_rate": sample_rate, "batch": batch}
        found = [
            Prediction(dict(labels), source if isinstance(source, Path) else None)
            for source, labels in predicting.predict(self, inputs, **options)
        ]
        return found[0] if self.takes_as_one(inputs) else found

    def transcribe(
        self,
        inputs: Any,
        *,
        search: Search | None = None,
        sample_rate: int | None = None,
        batch: int = transcribing.BATCH,
    ) -> Transcript | list[Transcript]:
        """Transcribe recordings of any length, or sequences of symbols such as `3 1 4`.

        Args:
            inputs: Recordings as in `predict`; for a model of symbols a text, or a list of texts.
            search: Search parameters; `None` is `Search()`, and for symbols greedy search.
            sample_rate: As in `predict`.
            batch: Recordings per forward pass.

        Raises:
            FileNotFoundError: If a path does not exist, or a folder holds no recording.
            InputError: If an input can't be read, or the model outputs no transcripts. The message says what to use.
        """
        if "symbols" in self.preprocessing:
            is_one = isinstance(inputs, str)
            found = transcribing.transcribe_symbols(self, [inputs] if is_one else inputs, search=search)
            return found[0] if is_one else found
        options = {"search": search, "sample_rate": sample_rate, "batch": batch}
        found = [
            replace(transcript, path=source) if isinstance(source, Path) else transcript
            for source, transcript in transcribing.transcribe(self, inputs, **options)
        ]
        return found[0] if self.takes_as_one(inputs) else found

    def stream(
        self, *, settings: SpottingSettings | None = None, search: Search | None = None
    ) -> WordSpotter | LabelStream | TranscriptStream:
        """The words of audio as it arrives: `push(samples)` returns those that became final, `flush()` the last ones.

            with model.stream() as words:
                for word in words.listen():  # the microphone; or a path, samples, or an iterable of parts of samples
                    print(word.label, word.start_s, word.end_s)

        A classifier spots single words (`WordSpotter`), a model that labels frames gives words with exact times
        (`LabelStream`), and one with CTC gives the transcript (`TranscriptStream`). The logits of the latest push are
        `logits`; `vitspeech.stream(model)` returns these alone.

        Args:
            settings: Of a `WordSpotter`: its thresholds and other numbers; `None` takes those of the card.
            search: Of a `TranscriptStream`; `None` is `Search()`.

        Raises:
            InputError: If the model can't be streamed, or is not one that the argument is for.
        """
        transcribes = is_transcribing(self)
        if settings is not None and (transcribes or is_labeling(self)):
            raise InputError(f"settings: of models that spot single words, not of {type(self.network).__name__}")
        if search is not None and not transcribes:
            raise InputError(f"search: of models that transcribe, not of {type(self.network).__name__}")
        if transcribes:
            return TranscriptStream(self, search=search)
        return LabelStream(self) if is_labeling(self) else WordSpotter(self, settings)

    @torch.no_grad()
    def features(
        self, inputs: Any, *, sample_rate: int | None = None, batch: int = predicting.BATCH
    ) -> Tensor | list[Tensor]:
        """What the network's head sees, such as for a classifier of your own.

        Of a classifier they are the pooled features of images or clips, of other speech models the encoded tokens of
        each recording, of up to a minute. Arguments and errors are as in `predict`.

        Shape:
            -> pooled (W,) for one input, (B, W) for several; or tokens (T, D), a list of these for several
        """
        check_model(self)
        network, options = self.network, {"sample_rate": sample_rate, "batch": batch}
        if not hasattr(network, "forward_features"):
            raise InputError(f"{type(network).__name__} has no forward_features")
        if not hasattr(network, "forward_head"):
            rows = [network.forward_features(sound)[0].float() for sound in recordings(self, inputs, sample_rate)]
            return rows[0] if self.takes_as_one(inputs) else rows

        def compute(items: Tensor) -> Tensor:
            return network.forward_head(network.forward_features(items), pre_logits=True).float()

        rows = [row for _, row in run_clips(self, inputs, compute, **options)]
        return rows[0] if self.takes_as_one(inputs) else torch.stack(rows)

    def takes_as_one(self, inputs: Any) -> bool:
        """Whether these inputs are a single one, with a single result."""
        return is_single(inputs, PICTURE_AXES if "image" in self.preprocessing else SOUND_AXES)

    def to(self, device: str | torch.device) -> Self:
        """Move the network to a device, where everything then runs; returns the model.

        Its weights stay in float32: for lower precision, call the model, or all of a stream, within `torch.autocast`.
        """
        if isinstance(device, torch.dtype):
            raise InputError(f"a model's weights stay in float32; for {device} call it within torch.autocast")
        self.network.to(device)
        return self

    def eval(self) -> Self:
        """Put the network into evaluation mode, as it was loaded; returns the model."""
        self.network.eval()
        return self

    def num_parameters(self) -> int:
        """The number of parameters of the network."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder that `vitspeech.load` reads; see `vitspeech.save`."""
        save(self.network, folder, labels=self.labels, like=self)

    def __repr__(self) -> str:
        name = self.card.get("name") or (self.folder.name if self.folder else "")
        network = f"{type(self.network).__name__} of {self.num_parameters():,} parameters"
        return f"Model({name!r}, {network}, labels: {some_names(self.labels)})"


def recordings(model: Model, inputs: Any, sample_rate: int | None) -> Iterator[Tensor]:
    """The network's input for each recording of up to a minute, on the network's device: (1, N)."""
    device, rate_hz, notes = next(model.network.parameters()).device, model.preprocessing["sample_rate_hz"], Notes()
    for source in walk_inputs(inputs, SOUND_AXES, walk_audio):
        sound = read_recording(source, rate_hz, "cut it", notes, sample_rate)
        yield sound[None].to(device) / FULL_SCALE
    notes.warn()


def load(folder: str | Path, *, trust: Sequence[str] = ()) -> Model:
    """Load a released model or a finished run: `vitspeech.load("checkpoints/vit-cifar10")`.

    Loading runs no code from the folder: the weights are safetensors, and the configuration may name only networks of
    vitspeech, torch and timm, and classes of the modules in `trust`.

    Args:
        folder: Holds `model.safetensors`, `config.yaml` and `card.json`; or a finished run, which has them in `model/`;
            or `hf-hub:user/name@revision`, a released model on the Hugging Face Hub.
        trust: Modules of your own whose code may run, such as `["mine"]` for `class_path: mine.Net`. They are also
            looked for in the current folder.

    Raises:
        FileNotFoundError: If the folder or a file in it is missing.
        InputError: If a file is altered, broken, or does not fit the others, a class is not trusted, or a model on the
            hub cannot be downloaded.
    """
    return Model(**vars(released.load(folder, trust=trust)))


def save(network: nn.Module, folder: str | Path, *, like: released.Model, labels: Sequence[str] | None = None) -> None:
    """Write a network that was trained in plain PyTorch into a folder that `vitspeech.load` reads.

        net = model.network
        net.reset_classifier(2)
        ...  # train
        vitspeech.save(net, "checkpoints/mine", labels=["cat", "dog"], like=model)

    The folder is replaced as a whole if it holds a model. Metrics and other results on the card of `like` are kept only
    if weights and labels are the same.

    Args:
        network: A network built like that of `like`, whose head may have another number of outputs.
        folder: Where to write it.
        like: The model whose preprocessing, task and settings of the network are used.
        labels: The name of each class, in the order of the logits; `None` takes those of `like`.

    Raises:
        FileExistsError: If `folder` holds something else.
        InputError: If labels and network do not fit each other, or the network is not like that of `like`. Nothing is
            written then.
    """
    labels = [*(like.labels if labels is None else labels)]
    config = copy.deepcopy(like.config)
    arguments = config.get("init_args") or {}
    for name in {"classes", "units"} & arguments.keys():
        arguments[name] += len(labels) - len(like.labels)
    description = {"network": config, "labels": labels, "preprocessing": like.preprocessing, "task": like.task}
    check_config(description)
    check_outputs(getattr(network, "num_classes", 0) or len(labels), labels)  # 0 is a head of another kind
    weights = {name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}
    try:
        build_network(description, weights, like.trust)
    except InputError as error:
        other = "another network needs its own: like=vitspeech.Model(network, labels, preprocessing, {}, config)"
        raise InputError(f"not like the network of {like!r}: {one_line(error):.120}…; {other}") from None
    card = {"name": Path(folder).name, "parameters": sum(parameter.numel() for parameter in network.parameters())}
    card |= {name: like.card[name] for name in KEPT if name in like.card}
    if "sha256" in like.card:
        card |= {"starts_from": like.card.get("name", str(like.folder)), "starts_from_sha256": like.card["sha256"]}
    files: list[list[Path]] = [[], []]
    if like.folder is not None and labels == like.labels and is_equal(weights, like.folder / released.WEIGHTS):
        card = like.card
        files = [
            sorted(like.folder.glob("*.jsonl")),
            [*filter(Path.exists, map(like.folder.joinpath, released.RUN_FILES))],
        ]
    released.save(replace(like, network=network, labels=labels, card=card, config=config), folder, *files)


def is_equal(weights: dict[str, Tensor], file: Path) -> bool:
    """Whether a file has these weights, as far as its precision shows."""
    if not file.exists():
        return False
    stored = load_file(file)
    return stored.keys() == weights.keys() and all(
        torch.equal(weights[name], tensor.to(weights[name].dtype)) for name, tensor in stored.items()
    )
