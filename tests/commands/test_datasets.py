"""`vitspeech pack` and `vitspeech language-model`: what is made from the data of a config."""

import json
import shutil

import numpy
import pytest
import soundfile
from PIL import Image
from running import one_line
from tiny import TINY_SEQUENCES

import vitspeech
from vitspeech.commands.datasets import read_lines
from vitspeech.commands.evaluate import search_on_card
from vitspeech.decoding.language import arpa
from vitspeech.tasks import Recognition
from vitspeech.training.train import TrainingCLI

DATA = [argument for argument in TINY_SEQUENCES if argument.startswith("--data")]
CONFIG = "spoken_words/sequences"
OWN = """extends: librispeech/small
data:
  class_path: vitspeech.TranscribedAudio
  init_args: {{root: {root}, text: plain, units: characters, vocabulary: training, batch_s: 120}}
"""


@pytest.fixture
def pictures(tmp_path) -> list[str]:
    """A config of a folder of 60 pictures, as arguments."""
    for name in ("ape", "bee"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(30):
            Image.new("RGB", (20, 20), (8 * number, 0, 0)).save(tmp_path / "pictures" / name / f"{number}.png")
    return ["shapes/vit", "--data=vitspeech.ImageFolder", f"--data.root={tmp_path / 'pictures'}", "--data.image=32"]


def trains_on(result) -> list[str]:
    """The arguments of `vitspeech train` that `vitspeech pack` prints."""
    return result.stdout.splitlines()[-1].removeprefix("to train on it: vitspeech train ").split()


@pytest.mark.data
def test_cifar_trained_from_a_pack_ends_as_from_memory(command, tmp_path):
    packed = trains_on(command("pack", "cifar10/vit", tmp_path / "pack", "--shard-mb=32"))
    small = ["--config=trainer/smoke", "--trainer.enable_progress_bar=false", "--trainer.precision=32-true"]
    small += ["--model.network.init_args.width=16", "--model.network.init_args.encoder.depth=1"]
    for run, given in (("memory", ["--config=cifar10/vit"]), ("packed", packed)):
        TrainingCLI([*given, *small, f"--run={tmp_path / run}"]).train()
    ours, theirs = (json.loads((tmp_path / run / "model/card.json").read_text()) for run in ("memory", "packed"))
    assert ours["metrics"] == theirs["metrics"]
    table = (tmp_path / "memory/metrics.csv").read_text()
    assert table == (tmp_path / "packed/metrics.csv").read_text()


def test_a_config_is_packed_and_trained_on(command, tmp_path, pictures):
    config, *data = pictures
    folder = tmp_path / "pack"
    result = command("pack", config, folder, *data)
    assert "48 train, 6 validation, 6 test images" in result.stdout
    assert "holds other files" in one_line(command("pack", config, folder, *data))
    shutil.rmtree(tmp_path / "pictures")
    small = ["--data.batch=8", "--trainer.max_epochs=1", "--trainer.accelerator=cpu", f"--run={tmp_path / 'run'}"]
    assert command("train", *trains_on(result), *small).returncode == 0
    card = json.loads((tmp_path / "run/model/card.json").read_text())
    assert card["metrics"]["images"] == 6 and not {"storage", "path"} & card["data"]["init_args"].keys()
    evaluated = command("evaluate", tmp_path / "run", "--data", folder)
    assert f"test_accuracy {card['metrics']['test_accuracy']:.4f}" in evaluated.stdout


@pytest.fixture
def words_model(command, tmp_path):
    """A language model of the words of the tiny recognizer."""
    result = command("language-model", CONFIG, tmp_path / "words.arpa", *DATA, "--order", 2)
    assert result.returncode == 0, result.stderr
    return tmp_path / "words.arpa", result.stdout


def test_the_units_of_the_training_transcripts_are_counted(words_model, finished_recognizer_run):
    file, printed = words_model
    model, labels = arpa.read(file), vitspeech.load(finished_recognizer_run).labels
    assert model.kind == "words" and model.vocabulary == [*labels, "<s>", "</s>"] and model.order == 2
    first, sizes, perplexity = printed.splitlines()
    assert first.startswith("60 training transcripts, ") and first.endswith(" words, order 2")
    assert sizes.startswith(f"{file}: {len(labels) + 2}, ")
    assert 3 < float(perplexity.rpartition(" ")[2]) < len(labels) + 1
    assert file.read_text().startswith(f"# vitspeech {vitspeech.__version__}: modified Kneser-Ney, 60 training")


def test_characters_and_the_words_of_characters_are_counted(command, tmp_path):
    characters, words = tmp_path / "characters.arpa", tmp_path / "words.arpa"
    assert command("language-model", CONFIG, characters, *DATA, "--data.units=characters").returncode == 0
    assert command("language-model", CONFIG, words, *DATA, "--data.units=characters", "--words").returncode == 0
    assert (arpa.read(characters).kind, arpa.read(characters).order) == ("characters", 6)
    assert (arpa.read(words).kind, arpa.read(words).order) == ("words", 3)
    assert "<unk>" in arpa.read(words).index and " " in arpa.read(characters).index


def test_other_text_is_counted(command, tmp_path, finished_recognizer_run):
    one, other = vitspeech.load(finished_recognizer_run).labels[:2]
    text = tmp_path / "text.txt"
    text.write_text(f"{one} {other}\n\n{one}\n")
    result = command("language-model", CONFIG, tmp_path / "out.arpa", *DATA, "--text", text)
    assert result.stdout.startswith("2 lines of text.txt, 3 words, order 3\n")
    text.write_text(f"{one} {other}\n\n{one} supercalifragilistic\n")
    message = one_line(command("language-model", CONFIG, tmp_path / "new.arpa", *DATA, "--text", text))
    assert "text.txt: line 3: 'supercalifragilistic'" in message and not (tmp_path / "new.arpa").exists()


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"\xef\xbb\xbfthe cat\n")
    assert [words for _, words in read_lines(text, str.split)] == [["the", "cat"]]


def test_other_text_is_written_as_the_transcripts_are(command, tmp_path):
    """With `text: plain` in lower case without punctuation; words that the units cannot write are counted."""
    for name in ("train", "validation", "test"):
        soundfile.write(tmp_path / f"{name}.wav", numpy.zeros(16_000, numpy.int16), 16_000)
        (tmp_path / f"{name}.csv").write_text(f"path,transcript\n{name}.wav,go left\n")
    (tmp_path / "novels.txt").write_text("Go! Left,\nzoo.\n")
    arguments = [tmp_path / "words.arpa", "--words", "--text", tmp_path / "novels.txt", "--order", 1]
    (tmp_path / "own.yaml").write_text(OWN.format(root=tmp_path))
    result = command("language-model", tmp_path / "own.yaml", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(
        "1 of 3 words cannot be written with the units, first 'zoo'\n2 lines of novels.txt, 3 words"
    )
    assert arpa.read(tmp_path / "words.arpa").vocabulary[:3] == ["go", "left", "zoo"]


def test_commands_take_the_language_model(command, words_model, finished_recognizer_run, words, monkeypatch):
    def spy(network, data, search):
        evaluated_with.append((search, list(data.test_sets())))
        return evaluate(network, data, search=search)

    file, _ = words_model
    model, options = vitspeech.load(finished_recognizer_run), ["--language-model", file, "--language-weight", 3]
    search = vitspeech.Search(language_model=file, language_weight=3)
    ((_, expected),) = vitspeech.transcribe(model, [words], search=search)
    ((_, without),) = vitspeech.transcribe(model, [words])
    assert expected.text != without.text
    assert command("transcribe", finished_recognizer_run, words, *options).stdout == f"{words}: {expected.text}\n"
    lines = command("stream", finished_recognizer_run, words, *options).stdout.splitlines()[1:-1]
    assert [line.split()[-1] for line in lines] == expected.text.split()
    evaluate, evaluated_with = Recognition.evaluate, []
    monkeypatch.setattr(Recognition, "evaluate", spy)
    evaluated = command("evaluate", finished_recognizer_run, "--split", "validation", *options, "--length-bonus", 1)
    ((used, test_sets),) = evaluated_with
    assert (used.language_weight, used.length_bonus, test_sets) == (3, 1, ["validation"]) and used.language_model
    assert evaluated.returncode == 0 and "validation: word_error_rate" in evaluated.stdout


@pytest.mark.parametrize(
    ("beam", "language", "expected"),
    [
        (1, {}, {"beam": 1, "ctc_weight": 0.5}),
        (1, {"language_model": "words.arpa"}, {"ctc_weight": 0.5}),
        (16, {"language_model": "words.arpa"}, {"beam": 16, "ctc_weight": 0.5}),
    ],
)
def test_evaluation_with_a_language_model_is_not_greedy(beam, language, expected):
    card = {"metrics": {"search": {"beam": beam, "ctc_weight": 0.5}}}
    assert search_on_card(card, language) == expected and card["metrics"]["search"]["beam"] == beam


def test_a_language_model_that_does_not_fit_is_refused_in_one_line(
    command, words_model, finished_recognizer_run, finished_transcriber_run, finished_speech_run, words
):
    file, _ = words_model
    verbs = [("transcribe", words), ("stream", words), ("evaluate",)]
    for verb, *paths in verbs:
        broken, other = file.with_name("broken.arpa"), file.with_name("other.arpa")
        broken.write_text(file.read_text().replace("ngram 2=", "ngram 2=x"))
        other.write_text(file.read_text().replace(arpa.read(file).vocabulary[0], "elephant"))
        message = one_line(command(verb, finished_recognizer_run, *paths, "--language-model", broken))
        assert f"{broken}: line 6: 'ngram 2=x" in message
        message = one_line(command(verb, finished_recognizer_run, *paths, "--language-model", other))
        assert "the language model has the unit 'elephant'" in message
        message = one_line(command(verb, finished_recognizer_run, *paths, "--length-bonus", 1))
        assert "--length-bonus needs --language-model" in message
    message = one_line(command("transcribe", finished_transcriber_run, words, "--language-model", file))
    assert "SpeechTranscriber has no search with a language model; use a recognizer with CTC" in message
    message = one_line(command("stream", finished_speech_run, words, "--language-model", file))
    assert "spots single words: --language-model is for transcripts" in message
    assert command("stream", finished_recognizer_run, words, "--beam", 4).returncode == 2
