"""Voices of the user's own: two tiny networks with the inputs of Piper and of Kokoro, and every error."""

import itertools
import json
import sys

import numpy
import pytest
import torch

from vitspeech.data import Keywords
from vitspeech.data.audio.neural_voices import COPIES, SPLITS, Model, NeuralVoices
from vitspeech.errors import InputError

pytest.importorskip("espeakng_loader", reason="phonemes need the extra `spoken`")
pytest.importorskip("onnxruntime", reason="neural voices need the extra `voices`")
onnx = pytest.importorskip("onnx", reason="the networks are written with it")
SOUNDS = "abdefhijklmnoprstuvwzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒθ ˈˌː."
TEXTS = ["lamp", "window"] * 2 * COPIES


def write_network(file, tokens, level):
    """A network whose sound is its tokens, repeated, with noise; the level is that of the sum of another input."""
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Cast", [tokens], ["numbers"], to=types.FLOAT),
        helper.make_node("Tile", ["numbers", "times"], ["long"]),
        helper.make_node("RandomNormalLike", ["long"], ["noise"]),
        helper.make_node("Add", ["long", "noise"], ["noisy"]),
        helper.make_node("ReduceSum", [level], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["level"], to=types.FLOAT),
        helper.make_node("Add", ["level", "one"], ["factor"]),
        helper.make_node("Mul", ["noisy", "factor"], ["loud"]),
        helper.make_node("Mul", ["loud", "scale"], ["sound"]),
    ]
    constants = [
        helper.make_tensor("times", types.INT64, [2], [1, 200]),
        helper.make_tensor("one", types.FLOAT, [], [1.0]),
        helper.make_tensor("scale", types.FLOAT, [1], [1e-4]),
    ]
    kinds = {"sid": (types.INT64, [1]), "style": (types.FLOAT, [1, 256])}
    inputs = [(tokens, types.INT64, [1, "tokens"]), (level, *kinds[level])]
    graph = helper.make_graph(
        nodes,
        "voice",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info("sound", types.FLOAT, [1, "samples"])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)


def piper(folder, speakers=8, accent="en-us", sounds=SOUNDS, **changed):
    folder.mkdir(exist_ok=True)
    write_network(folder / "anna.onnx", "input", "sid")
    config = {
        "audio": {"sample_rate": 22_050},
        "espeak": {"voice": accent},
        "num_speakers": speakers,
        "phoneme_id_map": {sign: [number] for number, sign in enumerate("_^$" + sounds)},
    }
    (folder / "anna.onnx.json").write_text(json.dumps(config | changed))
    return folder


def kokoro(folder):
    folder.mkdir(exist_ok=True)
    write_network(folder / "kokoro.onnx", "tokens", "style")
    names = ("jf_one", "jf_two", "jm_three", "jm_four")
    styles = {name: numpy.full((9, 1, 256), number / 100) for number, name in enumerate(names, start=1)}
    numpy.savez(folder / "voices.npz", **styles)
    vocabulary = {sign: number for number, sign in enumerate(SOUNDS + "AIOWYTʤʧ", start=1)}
    (folder / "config.json").write_text(json.dumps({"vocab": vocabulary}))
    return folder


def synthesize(folder, split="train", seed=0):
    return NeuralVoices(folder).synthesize(TEXTS, split, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("voice", [piper, kokoro])
def test_the_same_texts_give_the_same_sounds_and_each_is_heard_at_several_speeds(tmp_path, voice, monkeypatch):
    spoken, speak = [], Model.speak
    monkeypatch.setattr(Model, "speak", lambda self, *rest: spoken.append(rest[0]) or speak(self, *rest))
    first = synthesize(voice(tmp_path))
    assert len(first) == len(TEXTS) and len(spoken) == len(TEXTS) / COPIES and len({*spoken}) == 2
    again, other = synthesize(tmp_path), synthesize(tmp_path, seed=1)
    same = [one[0] == two[0] and torch.equal(one[1], two[1]) for one, two in zip(first, again, strict=True)]
    assert all(same) and not all(len(one[1]) == len(two[1]) for one, two in zip(first, other, strict=True))
    assert all(sound.dtype == torch.int16 and sound.ndim == 1 for _, sound in first)
    copies = [len(sound) for _, sound in first[::4]]  # of the first utterance of `lamp`
    assert len({*copies}) == len(copies) and max(copies) < 1.25 / 0.8 * min(copies) + 2


def test_no_speaker_is_in_two_splits_and_one_alone_is_in_training(tmp_path):
    voices = NeuralVoices(piper(tmp_path))
    speakers = [voices.speakers(split) for split in SPLITS]
    assert list(map(len, speakers)) == [6, 1, 1] and len({*itertools.chain(*speakers)}) == 8
    assert {name for name, _ in synthesize(tmp_path, "test")} == set(voices.speakers("test"))
    alone = NeuralVoices(piper(tmp_path, speakers=1))
    assert [alone.speakers(split) for split in SPLITS] == [["anna"], [], []]


def test_keywords_are_spoken_by_the_voices_and_other_words_by_espeak(tmp_path):
    piper(tmp_path / "voices", speakers=2)
    plan = {"recordings": None, "others": 0, "altered": 0, "spoken": 1.0, "silence": 0.1, "speech_cuts": 0}
    data = Keywords(["lamp", "window"], str(tmp_path), voices="voices", synthesized=10, **plan)
    data.prepare_data()
    train, validation = data.read("train"), data.read("validation")
    by = {False: set(), True: set()}
    for name, label in zip(train.speakers, train.labels.tolist(), strict=False):
        by[label < 2].add(name)
    assert by[True] == {"anna+0", "anna+1"}
    assert by[False] and all(name.startswith("en-") for name in by[False])
    assert {name[:3] for name in validation.speakers[:4]} == {"en-"}  # two speakers are too few for three splits


def test_kokoro_speaks_its_languages_with_any_voice_and_no_other_language(tmp_path):
    voices = NeuralVoices(kokoro(tmp_path))
    assert set(voices.models) == {"jf_one", "jf_two", "jm_three", "jm_four"}
    assert set(NeuralVoices(tmp_path, "en-gb").models["jf_one"].speakers.values()) == {"en-gb"}
    with pytest.raises(InputError, match="no voice speaks 'de'; they speak en-gb, en-us, es, fr"):
        NeuralVoices(tmp_path, "de")


def test_only_voices_of_the_language_are_taken(tmp_path):
    assert NeuralVoices(piper(tmp_path, accent="de"), "de").speakers("train")
    with pytest.raises(InputError, match="no voice speaks 'en'; they speak de"):
        NeuralVoices(tmp_path)


def test_a_voice_that_cannot_say_a_word_is_named(tmp_path):
    voices = NeuralVoices(piper(tmp_path, sounds=SOUNDS.replace("k", "")))
    voices.check(["lamp", "window"])
    with pytest.raises(InputError, match=r"anna.onnx: the voice has no k \(in IPA\)"):
        voices.check(["lamp", "kitchen"])


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "anna.onnx").unlink(), r"has no voice \(\*.onnx\)"),
        (lambda folder: (folder / "anna.onnx").write_bytes(b"no network"), "anna.onnx: the voice cannot be read"),
        (lambda folder: (folder / "anna.onnx.json").unlink(), r"anna.onnx needs anna.onnx.json \(Piper\)"),
        (lambda folder: (folder / "anna.onnx.json").write_text("{"), "it cannot be read"),
        (lambda folder: (folder / "anna.onnx.json").write_text("{}"), "it has no 'espeak'"),
        (lambda folder: piper(folder, phoneme_type="text"), "phoneme_type is 'text', not eSpeak's"),
        (lambda folder: write_network(folder / "anna.onnx", "words", "sid"), "this is no Piper voice or Kokoro"),
    ],
)
def test_what_is_no_voice_is_named_in_one_line(tmp_path, damage, message):
    damage(piper(tmp_path))
    with pytest.raises(InputError, match=message) as caught:
        NeuralVoices(tmp_path).check(["lamp"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "config.json").write_text("{}"), "it has no `vocab`"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: the voice needs this file"),
        (lambda folder: (folder / "voices.npz").write_bytes(b"no styles"), "these are no styles of Kokoro"),
    ],
)
def test_what_kokoro_lacks_is_named(tmp_path, damage, message):
    damage(kokoro(tmp_path))
    with pytest.raises(InputError, match=message):
        NeuralVoices(tmp_path)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install vitspeech\[voices\]"):
        NeuralVoices(piper(tmp_path)).check(["lamp"])
