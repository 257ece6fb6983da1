"""The model object: what it takes, in which order and form it answers, and the folders that it writes."""

import copy
import re
from types import SimpleNamespace

import numpy
import pytest
import soundfile
import torch
from PIL import Image
from tiny import ROOT

import vitspeech
from vitspeech.data.audio.reading import read_audio, to_sound
from vitspeech.errors import InputError
from vitspeech.samples import FOLDER

CAT, HORSE, SOUND = FOLDER / "cat.jpg", FOLDER / "horse.jpg", FOLDER / "left-right-go.wav"


def released(name):
    return vitspeech.load(ROOT / "checkpoints" / name)


@pytest.fixture(scope="module")
def classifier():
    return released("vit-cifar10")


@pytest.fixture(scope="module")
def spotter():
    return released("keywords-12")


@pytest.fixture(scope="module")
def recognizer():
    return released("spoken-words-ctc")


@pytest.fixture(scope="module")
def labeler():
    return released("spoken-words-labels")


@pytest.fixture
def cat():
    return Image.open(CAT)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The cat as a PNG: a JPEG is decoded at a fraction of its size."""
    path = tmp_path_factory.mktemp("pictures") / "cat.png"
    Image.open(CAT).save(path)
    return path


@pytest.fixture
def samples():
    return soundfile.read(SOUND, dtype="int16")[0]


def forms(picture):
    """A picture in every form in which people hold one."""
    array = numpy.array(picture)
    pixels = torch.from_numpy(array)
    alpha = numpy.full((*array.shape[:2], 1), 255, numpy.uint8)
    return {
        "PIL": picture,
        "(H, W, 3)": array,
        "(3, H, W)": array.transpose(2, 0, 1),
        "RGBA": numpy.concatenate((array, alpha), 2),
        "strided": numpy.ascontiguousarray(array[:, ::-1])[:, ::-1],
        "tensor": pixels.permute(2, 0, 1),
        "channels last": pixels,
        "floats": pixels.permute(2, 0, 1) / 255,
        "float64": array / 255,
    }


@pytest.mark.parametrize("form", forms(Image.new("RGB", (2, 2))))
def test_a_picture_in_memory_has_the_prediction_of_its_file(classifier, cat, file, form):
    expected = classifier.predict(file)
    found = classifier(forms(cat)[form])
    assert found.path is None and found.probabilities == pytest.approx(expected.probabilities, abs=1e-5)


def test_gray_pictures_are_taken_with_and_without_an_axis_of_channels(classifier, cat):
    gray = numpy.array(cat.convert("L"))
    expected = classifier(cat.convert("L")).probabilities
    for pixels in (gray, gray[..., None], gray[None], torch.from_numpy(gray), torch.from_numpy(gray)[None] / 255):
        assert classifier(pixels).probabilities == pytest.approx(expected, abs=1e-5)


def test_an_axis_of_three_pixels_is_not_taken_for_channels(classifier):
    wide = numpy.random.default_rng(0).integers(0, 256, (3, 200, 3), dtype=numpy.uint8)
    assert classifier(wide).probabilities == classifier(Image.fromarray(wide)).probabilities
    tensor = torch.from_numpy(wide).permute(2, 0, 1)
    assert classifier(tensor).probabilities == classifier(Image.fromarray(wide)).probabilities


def test_one_input_has_one_result_and_several_have_a_list_in_their_order(classifier, cat, tmp_path):
    for path in (CAT, HORSE):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert classifier.predict(str(CAT)).label == "cat" and classifier.predict(str(CAT)).path == CAT
    mixed = classifier([HORSE, cat, str(tmp_path), numpy.array(cat)])
    assert [one.label for one in mixed] == ["horse", "cat", "cat", "horse", "cat"]
    assert [one.path and one.path.name for one in mixed] == ["horse.jpg", None, "cat.jpg", "horse.jpg", None]
    assert [one.label for one in classifier(tmp_path)] == ["cat", "horse"]
    assert [one.label for one in classifier(tmp_path.glob("h*"))] == ["horse"]
    stacked = numpy.stack([numpy.array(cat)] * 2)
    assert [one.label for one in classifier(stacked)] == ["cat", "cat"] and classifier([]) == []
    assert len(classifier([CAT])) == 1


def test_the_functions_take_one_path_too(classifier, recognizer):
    ((path, labels),) = vitspeech.predict(classifier, str(CAT), top=1)
    assert path == CAT and labels[0][0] == "cat"
    ((path, transcript),) = vitspeech.transcribe(recognizer, str(SOUND))
    assert path == SOUND and transcript.text == "left right go"


def test_a_prediction_prints_its_labels(classifier):
    found = classifier.predict(CAT, top=2)
    (label, other), (first, second) = found.probabilities, found.probabilities.values()
    assert (found.label, found.probability) == (label, first)
    assert repr(found).startswith(
        f"Prediction(label='cat', probability={first:.3f}, probabilities={{'cat': {first:.3f}"
    )
    assert f"'{other}': {second:.3f}}}" in repr(found)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (5, "int: not an image; give a path, a PIL image"),
        ([None], "NoneType: not an image"),
        (numpy.zeros((7, 9, 5)), r"of shape \(7, 9, 5\): not an image"),
        (numpy.zeros((0, 9, 3)), r"of shape \(0, 9, 3\): not an image"),
        (torch.randn(3, 32, 32) * 3, "floats within 0..1; normalized ones are for the network itself"),
        (numpy.zeros((9, 9, 3), int), "type int64 from 0 to 0 are neither uint8"),
        (numpy.full((9, 9, 3), numpy.nan), "from nan to nan"),
        (Image.fromarray(numpy.full((9, 9), 300.0, numpy.float32)), "has values from 300 to 300; scale floats"),
    ],
)
def test_what_is_no_picture_is_refused_in_one_line(classifier, wrong, message):
    with pytest.raises(InputError, match=message):
        classifier(wrong)


def test_a_missing_path_is_refused(classifier):
    with pytest.raises(FileNotFoundError, match=r"nothing\.jpg: no such file or folder"):
        classifier("nothing.jpg")


SOUND_FORMS = {
    "int16": lambda one: one,
    "floats": lambda one: one / 32768,
    "float32 tensor": lambda one: torch.from_numpy(one / 32768).float(),
    "bfloat16": lambda one: torch.from_numpy(one / 32768).bfloat16(),
    "datasets": lambda one: {"path": None, "array": one / 32768, "sampling_rate": 16_000},
    "AudioDecoder": lambda one: SimpleNamespace(
        get_all_samples=lambda: SimpleNamespace(data=torch.from_numpy(one)[None] / 32768, sample_rate=16_000)
    ),
    "(N, 1)": lambda one: one[:, None],
    "(N, 2)": lambda one: numpy.stack([one, one], 1),
    "(2, N)": lambda one: torch.from_numpy(numpy.stack([one, one])),
}


@pytest.mark.parametrize("form", SOUND_FORMS)
def test_sound_in_memory_has_the_result_of_its_file(spotter, recognizer, labeler, samples, form):
    sound = SOUND_FORMS[form](samples)
    found, expected = spotter(sound), spotter(SOUND)
    assert found.label == expected.label
    assert form == "bfloat16" or found.probabilities == pytest.approx(expected.probabilities, abs=1e-4)
    assert recognizer(sound, sample_rate=16_000).text == "left right go"
    assert [word.label for word in labeler(sound)] == ["left", "right", "go"]
    assert len(spotter([sound, SOUND])) == 2


def test_arrays_are_resampled_as_files_are(recognizer, tmp_path, samples):
    stereo = numpy.stack([samples, samples // 2], 1).repeat(3, 0)
    soundfile.write(tmp_path / "fast.wav", stereo, 48_000)
    assert torch.equal(to_sound(stereo, 48_000, 16_000), read_audio(tmp_path / "fast.wav"))
    expected = recognizer(tmp_path / "fast.wav")
    assert recognizer(stereo, sample_rate=48_000) == expected == recognizer({"array": stereo, "sampling_rate": 48_000})


def test_transcripts_keep_the_order_of_the_recordings_and_know_their_files(recognizer, samples):
    quiet, said = numpy.zeros(16_000, numpy.int16), "left right go"
    found = recognizer([SOUND, quiet, samples])
    assert [one.text for one in found] == [said, "", said] and [one.path for one in found] == [SOUND, None, None]
    assert found[0].words and "units" not in repr(found[0])


def test_long_sound_in_memory_is_transcribed_as_a_stream(recognizer, samples):
    long = numpy.concatenate([samples] * 20)
    assert len(long) > 60 * 16_000
    whole = recognizer(long)
    assert whole.text.split().count("right") == 20 and whole.words[-1].end_s > 60


@pytest.mark.parametrize(
    ("wrong", "options", "message"),
    [
        (numpy.zeros((3, 16_000)), {}, r"of shape \(3, 16000\): not a recording; give a path, or samples"),
        (numpy.zeros(16_000, numpy.int32), {}, "samples of type int32 are neither int16 nor floats"),
        (numpy.full(16_000, 1000.0), {}, "floats up to 1000 are not samples within ±1"),
        (numpy.zeros(100), {}, r"sound: lasts 0.00625 s, below 0.1 s"),
        (numpy.zeros(61 * 16_000), {}, "sound: lasts 61.0 s, above 60 s; cut it"),
        (numpy.zeros(16_000), {"sample_rate": 3}, "sample_rate=3 is outside 1,000 to 384,000 Hz"),
        ({"array": numpy.zeros(16_000), "sampling_rate": 3}, {}, "sample_rate=3 is outside 1,000 to 384,000 Hz"),
        ({"bytes": b"", "path": "a.wav"}, {}, "dict: not a recording"),
    ],
)
def test_what_is_no_sound_is_refused_in_one_line(spotter, wrong, options, message):
    with pytest.raises(InputError, match=message):
        spotter(wrong, **options)


STREAMED = {"spotter": "vitspeech.WordSpotter", "recognizer": "TranscriptStream", "labeler": "LabelStream"}


@pytest.mark.parametrize("kind", STREAMED)
def test_a_stream_gives_the_words_of_what_the_model_is_for(kind, request, samples):
    model = request.getfixturevalue(kind)
    with model.stream() as words:
        assert type(words).__name__ == STREAMED[kind].rpartition(".")[2]
        parts = (part for part in [samples[:20_000], samples[20_000:]])
        sources = [SOUND, samples, [*torch.from_numpy(samples).split(1000)], parts]
        found = [[(word.label, word.start_s) for word in words.listen(source)] for source in sources]
    assert [label for label, _ in found[0]] == ["left", "right", "go"]
    assert found[1:] == found[:1] * 3


def test_arguments_of_a_stream_that_the_model_does_not_take_are_refused(spotter, recognizer, labeler):
    for model in (recognizer, labeler):
        with pytest.raises(InputError, match="settings: of models that spot single words, not of Speech"):
            model.stream(settings=vitspeech.SpottingSettings())
    for model in (spotter, labeler):
        with pytest.raises(InputError, match="search: of models that transcribe, not of Speech"):
            model.stream(search=vitspeech.Search(beam=1))


def test_words_of_characters_are_whole_in_a_stream(samples):
    with released("librispeech-5h-ctc").stream() as words:
        found = [*words.listen(samples)]
    assert len(found) == 3 and "right" in [word.label for word in found]


def test_sound_of_another_rate_is_resampled_for_a_stream_and_parts_are_not(spotter, samples):
    with spotter.stream() as words:
        labels = [word.label for word in words.listen(samples.repeat(3), sample_rate=48_000)]
        with pytest.raises(InputError, match="parts of samples must have 16,000 Hz"):
            next(words.listen([samples], sample_rate=48_000))
    assert labels == ["left", "right", "go"]


def test_a_stream_without_a_sound_listens_to_the_microphone(spotter, samples, monkeypatch):
    heard = []

    def microphone(sample_rate_hz, part_s):
        heard.append((sample_rate_hz, part_s))
        yield from torch.from_numpy(samples).split(1600)

    monkeypatch.setattr("vitspeech.inference.stream.listen", microphone)
    with spotter.stream() as words:
        assert [word.label for word in words.listen()] == ["left", "right", "go"]
    assert heard == [(16_000, 0.1)]


@pytest.mark.parametrize("kind", STREAMED)
def test_the_logits_of_a_stream_are_those_of_the_audio(kind, request, samples):
    model = request.getfixturevalue(kind)
    words, plain, rows = model.stream(), vitspeech.stream(model), []
    for part in torch.from_numpy(samples).split(5000):
        words.push(part)
        rows.append(words.logits)
        assert torch.equal(words.logits, plain.push(part))
    words.flush()
    assert torch.equal(words.logits, plain.flush())


def test_leaving_the_block_of_a_stream_begins_a_new_recording(spotter, samples):
    with spotter.stream() as words:
        for word in words.listen(samples):
            assert word.label == "left"
            break
        found = next(words.listen(samples))
        words.push(samples)
    again = [*words.words([torch.from_numpy(samples)])]
    assert found.end_s == again[0].end_s and [word.label for word in again] == ["left", "right", "go"]


def test_features_are_what_the_head_sees(classifier, spotter, recognizer, cat, file, samples):
    together, alone = classifier.features([file, HORSE]), classifier.features(cat)
    assert torch.allclose(together[0], alone, atol=1e-5) and together.shape == (2, 128)
    assert classifier.labels[classifier.network.head(alone).argmax()] == "cat"
    probabilities = spotter.network.head(spotter.features(SOUND)).softmax(-1)
    assert probabilities.max().item() == pytest.approx(spotter(SOUND).probability, abs=1e-4)
    tokens = recognizer.features(samples)
    expected = recognizer.network.forward_frames(torch.from_numpy(samples)[None] / 32768)[0]
    assert torch.allclose(recognizer.network.frame_logits(tokens), expected, atol=1e-5)
    assert [one.shape for one in recognizer.features([SOUND])] == [tokens.shape]


def test_features_can_train_a_classifier(classifier):
    probe = torch.nn.Linear(128, 2)
    probe(classifier.features([CAT, HORSE])).sum().backward()
    assert probe.weight.grad.abs().sum() > 0


def test_a_model_prints_what_it_is_and_moves_as_its_network_does(classifier):
    assert "vit-cifar10" in repr(classifier) and "airplane" in repr(classifier) and len(repr(classifier)) < 200
    assert classifier.num_parameters() == classifier.card["parameters"]
    assert classifier.to("cpu") is classifier and not classifier.eval().network.training
    with pytest.raises(InputError, match=r"torch\.autocast"):
        classifier.to(torch.float16)


def test_the_symbols_of_a_text_are_transcribed(finished_symbols_run):
    model = vitspeech.load(finished_symbols_run)
    (expected,) = vitspeech.transcribe_symbols(model, ["3 1 4"])
    assert model("3 1 4") == model.transcribe(["3 1 4"])[0] == expected


def small():
    """A model in memory of a small hybrid, which was never in a folder."""
    torch.manual_seed(0)
    config = {
        "class_path": "vitspeech.ViT",
        "init_args": {"classes": 3, "image": 8, "width": 8, "encoder": {"depth": 1}},
    }
    network = vitspeech.ViT(3, 8, width=8, encoder={"depth": 1}).eval()
    return vitspeech.Model(network, ["a", "b", "c"], {"image": 8, "mean": [0.5] * 3, "std": [0.25] * 3}, {}, config)


@pytest.mark.parametrize("name", ["vit-cifar10", "cnn-cifar10", "hybrid-cifar10", "keywords-12", "speech-commands-cnn"])
def test_a_network_with_a_new_head_is_saved_as_a_model_that_loads(name, tmp_path):
    model = released(name)
    network, source = model.network, CAT if "image" in model.preprocessing else SOUND
    network.reset_classifier(2)
    vitspeech.save(network, tmp_path / "mine", labels=["no", "yes"], like=model)
    loaded = vitspeech.load(tmp_path / "mine")
    expected = vitspeech.Model(**vars(model) | {"labels": ["no", "yes"]}).predict(source)
    assert loaded.predict(source).probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    assert loaded.labels == ["no", "yes"] and loaded.num_parameters() == loaded.card["parameters"]
    assert loaded.card["name"] == "mine" and loaded.card["starts_from"] == name
    assert loaded.card["starts_from_sha256"] == model.card["sha256"]
    assert not {"metrics", "spotting", "data", "splits", "seeds"} & loaded.card.keys()
    if name == "keywords-12":
        assert loaded.stream().settings == vitspeech.SpottingSettings()


def test_a_model_is_copied_with_its_card_unless_its_weights_changed(tmp_path, spotter):
    spotter.save(tmp_path / "copy")
    copy = vitspeech.load(tmp_path / "copy")
    assert copy.card == spotter.card and copy.spotting == spotter.spotting
    with torch.no_grad():
        copy.network.head.bias += 1
    copy.save(tmp_path / "copy")
    tuned = vitspeech.load(tmp_path / "copy")
    assert "metrics" not in tuned.card and torch.equal(tuned.network.head.bias, copy.network.head.bias)


def test_a_model_that_was_never_in_a_folder_is_saved(tmp_path):
    model = small()
    model.save(tmp_path / "new")
    pixels = torch.rand(3, 8, 8)
    assert vitspeech.load(tmp_path / "new")(pixels) == model(pixels)
    assert vitspeech.load(tmp_path / "new").card["name"] == "new"


def test_what_would_not_load_is_not_written(tmp_path):
    model = small()
    model.network.reset_classifier(2)
    with pytest.raises(InputError, match=r"the network has 2 outputs, but there are 3 labels; give labels=\["):
        model.save(tmp_path / "new")
    with pytest.raises(InputError, match=r"labels: 'a' is there twice"):
        vitspeech.save(model.network, tmp_path / "new", labels=["a", "a"], like=model)
    other = vitspeech.ViT(3, 8, width=12, encoder={"depth": 1})
    with pytest.raises(InputError, match=r"not like the network of Model\('', ViT of .* size mismatch"):
        vitspeech.save(other, tmp_path / "new", like=model)
    assert not (tmp_path / "new").exists()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="is not empty and not a released model"):
        small().save(tmp_path)


def test_half_precision_is_kept_only_with_the_card(tmp_path):
    model = small()
    model.card["weights"] = "float16"
    model.save(tmp_path / "half")
    assert "weights" not in vitspeech.load(tmp_path / "half").card


def test_bytes_of_a_microphone_are_refused_with_what_makes_samples_of_them(spotter):
    with pytest.raises(InputError, match=r"^bytes are not samples; numpy.frombuffer\(…, numpy.int16\)"):
        spotter.stream().push(b"\0\0")
    for value, message in ((["a", "b"], "list of str: not samples"), ("a", "str: not samples")):
        with pytest.raises(InputError, match=f"^{message}; `listen` takes paths$"):
            spotter.stream().push(value)


def test_an_error_within_a_property_of_a_model_is_its_own(classifier):
    class Own(type(classifier)):
        @property
        def mine(self):
            return [].nowhere

    model = Own.__new__(Own)
    vars(model).update(vars(classifier))
    with pytest.raises(AttributeError, match=r"^'list' object has no attribute 'nowhere'$"):
        model.mine  # noqa: B018


def test_an_attribute_that_a_model_has_not_is_answered_with_where_it_is(classifier):
    for name, hint in (
        ("parameters", "; use model.network.parameters"),
        ("trainscribe", "; did you mean 'transcribe'?"),
        ("save_pretrained", "; use model.save"),
        ("cuda", '; use model.to("cuda")'),
    ):
        with pytest.raises(AttributeError, match=f"'Model' object has no attribute '{name}'{re.escape(hint)}$"):
            getattr(classifier, name)
    assert not hasattr(classifier, "num_classes_") and copy.deepcopy(classifier).labels == classifier.labels
    with pytest.raises(InputError, match=r"vitspeech.load\('checkpoints/vit-cifar10'\)"):
        vitspeech.Model("checkpoints/vit-cifar10")
    with pytest.raises(AttributeError, match=r"'create_model'; use vitspeech.load$"):
        vitspeech.create_model  # noqa: B018
    with pytest.raises(ImportError, match=r"'pipeline'; use vitspeech.load$"):
        from vitspeech import pipeline  # noqa: F401
    assert not hasattr(vitspeech, "pipeline")


@pytest.mark.parametrize("function", [vitspeech.predict, vitspeech.transcribe])
def test_a_path_in_place_of_the_model_is_answered_with_what_gives_one(function):
    with pytest.raises(InputError, match=r"^'checkpoints/vit-cifar10' is not a model; .*vitspeech\.load"):
        next(function("checkpoints/vit-cifar10", CAT))


def test_models_and_streams_run_within_autocast(classifier, spotter, samples):
    with torch.autocast("cpu"), spotter.stream() as stream:
        found = [*stream.listen(samples)]
        features = classifier.features(CAT)
    assert [word.label for word in found] == ["left", "right", "go"]
    assert features.dtype == torch.float32 and torch.allclose(features, classifier.features(CAT), atol=0.2)


def test_a_head_without_a_label_for_each_output_gives_no_labels(samples):
    for name, classes, inputs in (("vit-cifar10", 4, CAT), ("vit-cifar10", 0, CAT), ("keywords-12", 3, samples)):
        model = released(name)
        model.network.reset_classifier(classes)
        with pytest.raises(InputError, match=rf"^the network has {classes or 128} outputs, but there are 1\d labels; "):
            model(inputs)
    with pytest.raises(InputError, match=r"^the network has 3 outputs, but there are 14 labels; "):
        model.stream()


@pytest.mark.parametrize("name, inputs", [("cnn-cifar10", CAT), ("spoken-words-ctc", SOUND)])
def test_a_network_in_training_mode_is_not_run(name, inputs):
    model = released(name)
    before = copy.deepcopy(model.network.state_dict())
    model.network.train()
    for function in (model, model.features):
        with pytest.raises(InputError, match=r"in training mode.*; call model\.eval\(\) first$"):
            function(inputs)
    assert all(torch.equal(before[key], value) for key, value in model.network.state_dict().items())


def test_a_network_of_ones_own_is_saved_with_its_own_config(tmp_path, classifier):
    network = small().network
    with pytest.raises(InputError, match=r"; another network needs its own: like=vitspeech\.Model\(") as error:
        vitspeech.save(network, tmp_path / "own", labels=["a", "b", "c"], like=classifier)
    assert len(str(error.value)) < 400
    vitspeech.save(network, tmp_path / "own", like=small())
    assert vitspeech.load(tmp_path / "own").labels == ["a", "b", "c"]


def test_bytes_are_one_input_and_not_numbers(classifier):
    with pytest.raises(InputError, match=r"^bytes: not an image"):
        classifier(b"abc")


def test_a_model_of_another_kind_is_answered_with_its_method(classifier):
    with pytest.raises(InputError, match=r"use `vitspeech predict` \(model\.predict\)$"):
        classifier.transcribe(SOUND)


def test_the_attention_weights_of_a_model_are_those_of_its_network(classifier):
    with vitspeech.attention_weights(classifier) as weights:
        classifier(CAT)
    assert [*weights] == [f"encoder.blocks.{block}.attention" for block in range(6)]
