"""Exported folders and states that somebody altered on purpose, with sums that fit: each is refused in one line.

No link, pipe or device is opened, and nothing outside of the folder is read.
"""

import hashlib
import json
import os
import time
import unicodedata

import numpy
import onnx
import pytest
from bare import run
from onnx import TensorProto, helper

from vitspeech.export.demo import write_model
from vitspeech.export.runner import clips, encoder_decoder, images, runner, stream
from vitspeech.export.runner.model_graph import shapes_of

COMMON = {
    "format": 1,
    "name": "tiny",
    "labels": ["left", "right", "unknown"],
    "source": {"sha256": "0" * 64, "card_sha256": "1" * 64},
    "parity": {"difference": 1e-6, "largest": 2.0, "rows": 3},
}
AUDIO = {"sample_rate_hz": 16_000, "hop_samples": 640, "window_samples": 1360}
SPOTTING = {"thresholds": {"left": 0.5, "right": 0.5}, "refractory_s": 0.0, "smoothing_s": 0.12, "pause_s": 0.08,
            "token_probability": 0.6, "shortest_s": 0.15, "used_probability": 0.8, "least_fraction": 0.7}  # fmt: skip
STREAM = AUDIO | {"lead_in_samples": 560, "first_step": 0, "steps_ahead": 0, "state_size": 5, "first_row_ms": 22.5,
                  "row_ms": 40.0, "delay_ms": 485.0, "attention": []}  # fmt: skip
KINDS = {
    "images": (images, {"side": 2, "mean": [0.5] * 3, "std": [0.2] * 3, "crop": "", "resampling": "", "attention": []}),
    "clips": (clips, {"sample_rate_hz": 16_000, "samples": 4000, "length": "any", "shortest_samples": 1360}),
    "spotter": (stream, STREAM | {"task": "classification", "clip_samples": 16_000, "spotting": SPOTTING}),
    "labeler": (stream, STREAM | {"task": "labeling", "shortest_ms": 0.0, "least_probability": 0.0}),
    "encoder-decoder": (encoder_decoder, AUDIO | {
        "start_unit": 3, "end": 3, "longest_input": None, "longest_output": {"per_token": 1, "besides": 2, "most": 9},
        "separator": " ", "ctc": False, "cache_shape": [2, 1, 1, 0, 1]}),
}  # fmt: skip
VALUES = [None, True, -1, 0, 1.5, 10**30, "x", "\x1b[2J", [], {}, [[]], {"x": 1}, ["x"], [1] * 4]


def about_of(kind):
    """What model.json of a model of a kind holds, without `files`; and the sums of run.py."""
    named = {"spotter": "stream", "labeler": "stream"}.get(kind, kind)
    return json.loads(json.dumps(COMMON | {"kind": named} | KINDS[kind][1]))


def graph_of(about, file):
    """A graph with the inputs and outputs of a model, whose outputs are constant."""
    inputs, outputs = shapes_of(about, file)
    kinds = {"pixels": TensorProto.UINT8, "units": TensorProto.INT64, "symbols": TensorProto.INT64}
    values = {name: numpy.full([size or 1 for size in shape], name == "valid_out", numpy.float32)
              for name, shape in outputs.items()}  # fmt: skip
    nodes = [helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))
             for name, value in values.items()]  # fmt: skip
    given, made = (
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "tiny", given, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def write(folder, about, change=lambda graph: None, noted=None):
    """Write a folder whose sums fit; `change` alters its graphs."""
    folder.mkdir(exist_ok=True)
    kind = {"images": "images", "clips": "clips", "stream": "stream"}.get(about["kind"], "encoder-decoder")
    contents = runner(kind)
    for file in ["model.onnx", *["decoder.onnx"] * (kind == "encoder-decoder")]:
        graph = graph_of(about, file)
        entry = graph.metadata_props.add()
        entry.key, entry.value = "vitspeech", json.dumps(about) if noted is None else noted
        change(graph)
        contents[file] = graph.SerializeToString()
    for name, content in contents.items():
        if name.endswith(".onnx") or not (folder / name).exists():
            (folder / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    (folder / "model.json").write_text(json.dumps(about | {"files": sums}))
    return folder


def edit(folder, **changes):
    """Change model.json."""
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(about | changes))


def use(kind, folder):
    """Open a folder and run its model."""
    model = KINDS[kind][0].Model(folder)
    if kind == "images":
        model(numpy.zeros((1, model.side, model.side, 3), numpy.uint8))
    elif kind == "clips":
        model(numpy.zeros((1, min(model.samples, 10_000)), numpy.float32))
    elif kind == "encoder-decoder":
        model.text(model(numpy.zeros(4000, numpy.float32)))
    else:
        model.push(numpy.zeros(4000, numpy.float32))
        model.flush()


def refused(kind, folder):
    """Check that a folder is refused in one line, at once; `run.Model` and `demo` check the same. Returns the line."""
    start = time.process_time()
    with pytest.raises((ValueError, OSError)) as raised:
        use(kind, folder)
    assert time.process_time() - start < 5
    with pytest.raises((ValueError, OSError)):
        write_model(folder, folder.parent / "site", lambda folder: pytest.fail("was loaded"))
    assert not (folder.parent / "site").exists()
    return str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_nobody_altered_runs(kind, tmp_path):
    use(kind, write(tmp_path / "model", about_of(kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_in_the_place_of_another_is_refused_or_harmless(kind, tmp_path):
    def places(value, path=()):
        yield path
        if isinstance(value, dict | list):
            for key in value if isinstance(value, dict) else range(len(value)):
                yield from places(value[key], (*path, key))

    count = 0
    for *path, last in filter(None, places(about_of(kind))):
        for value in VALUES:
            altered = inner = about_of(kind)
            for key in path:
                inner = inner[key]
            inner[last] = value
            write(tmp_path / "model", about_of(kind), noted=json.dumps(altered))
            edit(tmp_path / "model", **altered)
            try:
                use(kind, tmp_path / "model")
            except ValueError as error:
                assert not any(unicodedata.category(each) == "Cc" for each in str(error)), (path, last, value)
                count += 1
    assert count > 200


def replaced(make):
    """An attack that puts something else in the place of model.onnx."""

    def attack(folder):
        os.rename(folder / "model.onnx", folder.parent / "other.onnx")
        make(folder / "model.onnx", folder.parent / "other.onnx")

    return attack


def listed(name):
    """An attack that lists another file."""
    return lambda folder: edit(
        folder, files=json.loads((folder / "model.json").read_text())["files"] | {name: "0" * 64}
    )


def text(*change):
    """An attack that replaces a part of the text of model.json."""

    def attack(folder):
        content = (folder / "model.json").read_text()
        assert change[0] in content
        (folder / "model.json").write_text(content.replace(*change))

    return attack


def linked_json(folder):
    os.rename(folder / "model.json", folder.parent / "model.json")
    os.symlink(folder.parent / "model.json", folder / "model.json")


def grown(path, _):
    with path.open("wb") as file:
        file.truncate(2**31 + 1)


def pipe_beside(folder):
    (folder / "keywords.py").unlink()
    os.mkfifo(folder / "keywords.py")


FILES = ("/dev/zero", "../other.py", "a/b.py", "a\\b.py", "..", "", "x\n.py", "x\0.py", "gone.py", "é.py", "run.py ")
ATTACKS = {
    "a linked graph": replaced(lambda path, other: path.symlink_to(other)),
    "a link to an endless device": replaced(lambda path, other: path.symlink_to("/dev/zero")),
    "a link to nowhere": replaced(lambda path, other: path.symlink_to("nowhere")),
    "a pipe": replaced(lambda path, other: os.mkfifo(path)),
    "a pipe as a module": pipe_beside,
    "a folder": replaced(lambda path, other: path.mkdir()),
    "a sparse file": replaced(grown),
    "an empty file": replaced(lambda path, other: path.touch()),
    "a link to another model.json": linked_json,
    **{f"the file {name!r}": listed(name) for name in (*FILES, 300 * "x")},
    "nested brackets": lambda folder: (folder / "model.json").write_text("[" * 200_000),
    "nested labels": text('"left"', "[" * 5000 + "]" * 5000),
    "a megabyte of digits": text("16000", "1" * 1_000_000),
    "not a number": text("22.5", "NaN"),
    "infinity": text("22.5", "1e999"),
    "a key twice": text('"labels"', '"labels": ["left", "right", "unknown"], "labels"'),
    "half a surrogate": text('"left"', r'"\ud800"'),
    "another encoding": lambda folder: (folder / "model.json").write_bytes("[1]".encode("utf-16")),
    "a list": lambda folder: (folder / "model.json").write_text("[1]"),
    "megabytes of spaces": lambda folder: (folder / "model.json").write_text(" " * 2**23),
    "no files": lambda folder: edit(folder, files={}),
    "a newer format": lambda folder: edit(folder, format=2),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_other_files_than_those_of_an_export_are_refused(attack, tmp_path):
    folder = write(tmp_path / "model", about_of("spotter"))
    attack(folder)
    assert str(folder) in refused("spotter", folder)


LABELS = {
    "of two lines": "a\nb", "that clears the terminal": "\x1b[2J", "with a control character of 8 bits": "\x9b2J",
    "in the other direction": "a\u202eb", "that is empty": "", "that is long": "x" * 2000,
}  # fmt: skip


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_labels_that_a_terminal_obeys_are_refused(label, tmp_path):
    about = about_of("labeler") | {"labels": ["left", label]}
    assert "labels[1]" in refused("labeler", write(tmp_path / "model", about))


def with_external_data(location, is_initializer=True):
    """Change a graph so that a constant is read from another file."""

    def change(graph):
        tensor = next(iter(graph.graph.node)).attribute[0].t
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": "0", "length": "12"}.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        if is_initializer:
            graph.graph.initializer.append(tensor)
            graph.graph.initializer[-1].name = graph.graph.node[0].output[0]
            del graph.graph.node[0]

    return change


def constant(name, value):
    """Change a graph so that an output has another value."""

    def change(graph):
        node = next(node for node in graph.graph.node if node.output[0] == name)
        node.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(numpy.asarray(value, numpy.float32)))

    return change


def without_output(graph):
    del graph.graph.output[0]


def other_input(graph):
    graph.graph.input[0].name = "other"


def other_type(graph):
    graph.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64


def failing(graph):
    graph.graph.node.append(helper.make_node("Reshape", ["samples", "shape"], ["none"]))
    graph.graph.initializer.append(onnx.numpy_helper.from_array(numpy.array([7, 11]), "shape"))
    graph.graph.output.append(helper.make_tensor_value_info("none", TensorProto.FLOAT, None))


GRAPHS = {
    **{f"weights in {location}": with_external_data(location)
       for location in ("secret.bin", "../secret.bin", "/dev/zero", "/etc/passwd", "model.json")},
    "a constant in another file": with_external_data("/etc/passwd", is_initializer=False),
    "an output less": without_output,
    "another input": other_input,
    "another type": other_type,
    "an operation that fails": failing,
    "rows of another shape": constant("logits", [[0, 0, 0, 0]]),
    "rows that are one number": constant("logits", 0),
    "rows that are not numbers": constant("logits", [[numpy.nan] * 3]),
    "a state of another shape": constant("state_out", [[0.0] * 6]),
}  # fmt: skip


@pytest.mark.parametrize("change", GRAPHS.values(), ids=GRAPHS)
def test_graphs_that_are_not_those_of_the_kind_are_refused(change, tmp_path, capfd):
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    folder = write(tmp_path / "model", about_of("spotter"), change)
    (folder / "secret.bin").write_bytes(bytes(12))
    with pytest.raises(ValueError, match=r"model\.onnx"):
        use("spotter", folder)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("noted", ["[" * 200_000, "1" * 100_000, "{}", "[]", "NaN", "\x1b[2J"])
def test_metadata_in_a_graph_that_are_not_those_of_model_json_are_refused(noted, tmp_path):
    assert "\x1b" not in refused("clips", write(tmp_path / "model", about_of("clips"), noted=noted))


STATES = {
    "steps": [-1, 2**50, 2**70, 3, 11.0, [11, 11], "11", numpy.nan],
    "pending": [[numpy.nan], [100.0], numpy.zeros(640), numpy.zeros((1, 3)), 0.0],
    "state": [[[numpy.nan] * 5], [[numpy.inf] * 5], [[0.0] * 6], [0.0] * 5],
    "decoder_count": [-1, 10**9, numpy.nan, "x", []],
    "decoder_posteriors": [numpy.full((2, 3), 7.0), numpy.full((2, 3), numpy.nan), numpy.zeros((2, 4))],
    "decoder_logits": [numpy.full((11, 3), numpy.inf), numpy.zeros((8, 3)), numpy.zeros((11, 3), numpy.float32)],
    "decoder_last_end_s": [numpy.nan, 1e9, "x", [1.0, 2.0]],
    "decoder_runs": [2 * [[0, 1, 2, 1]], [[99, 0, 1, 1]], [[2, 0, 1, 1]], [[0, 5, 99, 1]], [[0, 1, 2, 7]], [0.0]],
    "other": [1],
    "model": ["\x1b[2J" * 1000],
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_state_with_any_other_value_is_refused(name, tmp_path):
    model, path = stream.Model(write(tmp_path / "model", about_of("spotter"))), tmp_path / "state.npz"
    model.push(numpy.full(7000, 0.5))
    stream.save_state(model, path)
    whole = dict(numpy.load(path))
    stream.load_state(model, path)
    assert model.steps == 11 and whole["decoder_logits"].shape == (11, 3)
    floats = {"pending": numpy.float32, "state": numpy.float32}
    for value in STATES[name]:
        numpy.savez(path, **whole | {name: numpy.asarray(value, floats.get(name))})
        with pytest.raises(ValueError, match=r"state\.npz: (a damaged|the|not the) state( of an?.* model)?$"):
            stream.load_state(model, path)
        assert model.steps == 0  # nothing of it was taken


def bomb(path, whole):
    numpy.savez_compressed(path, **whole | {"state": numpy.zeros(2**24)})


def many(path, whole):
    numpy.savez(path, **whole | {f"x{number}": 0 for number in range(1000)})


def objects(path, whole):
    numpy.savez(path, **whole | {"steps": numpy.array([{}], dtype=object)})


def overlapping(path, whole):
    """Two names for the same bytes, as zip bombs have them."""
    numpy.savez(path, **whole | {"state": numpy.zeros(2**16)})
    content = path.read_bytes()
    start = content.index(b"PK\1\2")
    entries = content[start : content.index(b"PK\5\6")]
    end = content[content.index(b"PK\5\6") :]
    count = 2 * int.from_bytes(end[8:10], "little")
    size = (2 * len(entries)).to_bytes(4, "little")
    path.write_bytes(content[:start] + 2 * entries + end[:8] + 2 * count.to_bytes(2, "little") + size + end[16:])


@pytest.mark.parametrize("make", [bomb, many, objects, overlapping])
def test_a_file_that_is_larger_inside_than_outside_is_no_state(make, tmp_path):
    model, path = stream.Model(write(tmp_path / "model", about_of("labeler"))), tmp_path / "state.npz"
    stream.save_state(model, path)
    make(path, dict(numpy.load(path)))
    with pytest.raises(ValueError, match=r"state\.npz: not the state of a model$"):
        stream.load_state(model, path)


def test_the_command_refuses_in_one_line_and_advises_to_install_nothing_that_the_folder_names(bare, tmp_path):
    folder = write(tmp_path / "model", about_of("spotter"))
    (folder / "unit_runs.py").unlink()
    (folder / "keywords.py").unlink()
    result = run(bare, folder / "run.py", "x.wav")
    assert (result.returncode, result.stdout) == (1, "") and "keywords.py" in result.stderr
    assert result.stderr.count("\n") == 1 and "pip" not in result.stderr
    write(folder, about_of("spotter"))
    (folder / "model.json").write_text("[" * 200_000)
    result = run(bare, folder / "run.py", "x.wav")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    (folder / "keywords.py").write_text("import requests_evil\n")
    (folder / "model.json").unlink()
    result = run(bare, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import run, model_folder; "
                 "model_folder.run_command(lambda: __import__('keywords'))")  # fmt: skip
    assert result.returncode == 1 and "pip install" not in result.stderr


def test_clips_shorter_than_one_token_are_refused():
    with pytest.raises(ValueError, match="clip_samples"):
        stream.decoder_of(about_of("spotter") | {"clip_samples": 1359})
