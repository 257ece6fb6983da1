"""`vitspeech demo` without a browser: the folder that it writes, the server, and where onnxruntime-web comes from."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from functools import partial

import numpy
import pytest
from PIL import Image
from running import one_line
from tiny import ROOT

import vitspeech
from vitspeech.data.images.cifar import LABELS, Cifar
from vitspeech.errors import InputError
from vitspeech.export import demo as runtime
from vitspeech.export.demo import PAGE, server, write_demo, write_test_pictures

CHECKPOINTS = ROOT / "checkpoints"


@pytest.fixture
def files(monkeypatch):
    """Stand-ins for the three files, with their sums."""
    contents = {name: f"// {name}".encode() for name in runtime.SHA256}
    monkeypatch.setattr(
        runtime, "SHA256", {name: runtime.hashlib.sha256(c).hexdigest() for name, c in contents.items()}
    )
    return contents


@pytest.fixture
def no_index(monkeypatch, tmp_path):
    """An empty cache, no npm and no index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("npm_config_registry", raising=False)
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)


def archive_of(contents, path):
    """An archive as `npm pack` writes it."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def put(contents, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def test_files_are_read_from_folders_packages_and_archives(files, tmp_path):
    for source in (put(files, tmp_path / "a"), put(files, tmp_path / "b" / "dist").parent,
                   archive_of(files, tmp_path / "c.tgz")):  # fmt: skip
        assert runtime.web_runtime(source) == files


def test_files_of_another_version_are_refused(files, tmp_path):
    folder, first = put(files, tmp_path / "a"), "ort.wasm.min.mjs"
    for content, problem in ((b"// other", "is not that of"), (None, "lacks")):
        (folder / first).unlink() if content is None else (folder / first).write_bytes(content)
        with pytest.raises(InputError, match=problem) as refused:
            runtime.web_runtime(folder)
        assert first in str(refused.value) and "onnxruntime-web@1.30.0" in str(refused.value)
    os.mkfifo(tmp_path / "pipe.tgz")
    (tmp_path / "text.tgz").write_bytes(b"no archive")
    bomb = archive_of(files | {first: bytes(2**27 + 1)}, tmp_path / "bomb.tgz")
    for source, problem in ((tmp_path / "text.tgz", "neither a folder nor the archive"), (bomb, f"lacks {first}"),
                            (tmp_path / "pipe.tgz", "not a regular file")):  # fmt: skip
        with pytest.raises(InputError, match=problem):
            runtime.web_runtime(source)


def test_without_npm_the_message_says_which_files_go_where(files, no_index):
    with pytest.raises(InputError) as refused:
        runtime.web_runtime()
    assert all(name in str(refused.value) for name in files)
    assert str(runtime.cache_folder()) in str(refused.value) and "--runtime" in str(refused.value)


def test_an_index_fills_the_cache_and_an_altered_cache_is_filled_anew(files, no_index, monkeypatch, tmp_path):
    folder = tmp_path / "index" / "onnxruntime-web" / "-"
    folder.mkdir(parents=True)
    archive = archive_of(files, folder / f"onnxruntime-web-{runtime.VERSION}.tgz")
    with server(tmp_path / "index", 0) as serving:
        threading.Thread(target=serving.serve_forever).start()
        try:
            monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{serving.server_port}/")
            assert runtime.web_runtime() == files
            altered = runtime.cache_folder() / "ort.wasm.min.mjs"
            altered.write_bytes(b"// altered")
            assert runtime.web_runtime() == files and altered.read_bytes() == files["ort.wasm.min.mjs"]
            archive.unlink()
            assert runtime.web_runtime() == files  # from the cache
            altered.unlink()
            with pytest.raises(InputError, match="could not be loaded from the index of npm_config_registry"):
                runtime.web_runtime()
        finally:
            serving.shutdown()


def test_the_folder_has_all_that_the_page_asks_for(files, exported, finished_run, tmp_path):
    source = exported("speech-commands-truncated")
    models = write_demo([source, finished_run, source], tmp_path / "site", files, vitspeech.load)
    assert [model["kind"] for model in models] == ["stream", "images", "stream"]
    assert len({model["folder"] for model in models}) == 3
    listed = json.loads((tmp_path / "site" / "models.json").read_text())
    assert listed["models"] == models
    paths = [path for paths in listed["examples"].values() for path in paths]
    paths += [f"{model['folder']}/{name}" for model in models for name in ("model.onnx", "model.json")]
    paths += [f"ort/{name}" for name in files] + [path.name for path in PAGE.iterdir()]
    assert all((tmp_path / "site" / path).is_file() for path in paths)
    assert json.loads((tmp_path / "site" / models[1]["folder"] / "model.json").read_text())["attention"]


def test_encoder_decoders_are_refused_and_leave_nothing(files, exported, finished_transcriber_run, tmp_path):
    for source in (exported("spoken-words-attention"), finished_transcriber_run):
        with pytest.raises(InputError, match="the page can't show encoder-decoders"):
            write_demo([source], tmp_path / "site", files, vitspeech.load)
        assert not [*tmp_path.iterdir()]


def test_bad_arguments_are_one_line(command, exported, files, no_index, tmp_path):
    folder = put(files, tmp_path / "ort")
    (tmp_path / "taken").mkdir()
    source = exported("speech-commands-truncated")
    nested, lacking = (shutil.copytree(source, tmp_path / name) for name in "ab")
    (nested / "model.json").write_text("[" * 100_000)
    (lacking / "model.onnx").unlink()
    rest = ["--out", tmp_path / "site", "--runtime", folder]
    for arguments, message in (
        ([nested, *rest], f"{nested / 'model.json'}: cannot be read: nested deeper"),
        ([lacking, *rest], str(lacking / "model.onnx")),
        ([source, "--out", tmp_path / "taken", *rest[2:]], "exists; name a new folder"),
        ([tmp_path / "none", *rest], "none"),
        ([source, *rest[:2]], "The page needs ort.wasm.min.mjs"),
        ([source, *rest[:3], tmp_path / "missing.tgz"], "missing.tgz"),
    ):
        assert message in one_line(command("demo", *arguments))
    assert not (tmp_path / "site").exists()


def test_it_serves_on_this_machine_until_ctrl_c(files, exported, tmp_path):
    code = (
        "import sys; from vitspeech import commands; from vitspeech.export import demo as w; import hashlib;"
        "w.SHA256 = {n: hashlib.sha256(f'// {n}'.encode()).hexdigest() for n in w.SHA256}; commands.main()"
    )
    source = exported("speech-commands-truncated")
    arguments = ["demo", source, "--port", "0", "--runtime", put(files, tmp_path / "ort")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    # A shell that starts the tests in the background has them ignore SIGINT, and so their processes.
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as started:
        try:
            address = next(line for line in started.stdout if line.startswith("http://127.0.0.1:")).split()[0]
            with urllib.request.urlopen(address + "ort/ort.wasm.min.mjs") as answer:
                assert answer.headers["Content-Type"] == "text/javascript"
                assert answer.read() == files["ort.wasm.min.mjs"]
            with pytest.raises(urllib.error.HTTPError, match="404") as missing:
                urllib.request.urlopen(address + "../../etc/passwd")
            missing.value.close()
        finally:
            started.send_signal(signal.SIGINT)
        assert started.wait(20) == 0


HOSTS = {
    "127.0.0.1:{port}": 200, "localhost:{port}": 200, "LocalHost": 200, "evil.example": 421, "evil.example:{port}": 421,
    "127.0.0.1.evil.example": 421, "localhost.": 421, "evil@127.0.0.1": 421, "0.0.0.0:{port}": 421, "": 421,
    "localhost\r\nHost: evil.example": 421, None: 421,
}  # fmt: skip
PATHS = {
    "/file.txt": 200, "/file.txt?x": 200, "/": 404, "/folder/": 404, "/%00": 404, "/file.txt%00": 404,
    "/../secret": 404,
    "/%2e%2e/secret": 404, "/..%2fsecret": 404, "//[": 404, "/" + "x" * 5000: 404, "/é": 404,
    "http://evil.example/x": 404,
}  # fmt: skip


@pytest.mark.parametrize("host, path, expected", [
    *((host, "/file.txt", status) for host, status in HOSTS.items()), *(("localhost", *each) for each in PATHS.items()),
])  # fmt: skip
def test_only_files_of_the_page_are_served_and_only_under_the_names_of_this_machine(
    host, path, expected, tmp_path, capfd
):
    (tmp_path / "page" / "folder").mkdir(parents=True)
    (tmp_path / "page" / "file.txt").write_text("text")
    (tmp_path / "secret").write_text("secret")
    with server(tmp_path / "page", 0) as serving, socket.create_connection(serving.server_address) as connection:
        threading.Thread(target=serving.handle_request).start()
        line = "" if host is None else f"Host: {host.format(port=serving.server_port)}\r\n"
        connection.sendall(f"GET {path} HTTP/1.0\r\n{line}\r\n".encode())
        answer = b"".join(iter(partial(connection.recv, 4096), b"")).decode()
    assert answer.split()[1] == str(expected) and "secret" not in answer and "folder" not in answer
    assert "X-Content-Type-Options: nosniff" in answer and capfd.readouterr() == ("", "")


def test_the_server_prints_nothing_about_a_browser_that_left(tmp_path, capsys):
    with server(tmp_path, 0) as serving:
        for error, printed in ((ConnectionResetError, False), (BrokenPipeError, False), (KeyError, True)):
            try:
                raise error("a request")
            except error:
                serving.handle_error(None, ("127.0.0.1", 1))
            assert (error.__name__ in capsys.readouterr().err) == printed


def test_test_pictures_are_examples_where_the_data_set_is(tmp_path, monkeypatch):
    monkeypatch.delenv("VITSPEECH_DATA", raising=False)
    assert write_test_pictures(tmp_path, [LABELS[10]], None) == []
    monkeypatch.setenv("VITSPEECH_DATA", str(tmp_path))  # has other data sets
    assert write_test_pictures(tmp_path, [LABELS[10]], None) == [] == list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="CIFAR-10 is missing"):
        write_test_pictures(tmp_path, [["left"], LABELS[10]], tmp_path)
    with pytest.raises(InputError, match="no model has the labels of CIFAR-10"):
        write_test_pictures(tmp_path, [["left"], LABELS[10][::-1]], tmp_path)


@pytest.mark.data
def test_one_test_picture_of_each_label(tmp_path):
    files = write_test_pictures(tmp_path, [["left"], LABELS[10]], None)
    test = Cifar(root=os.environ["VITSPEECH_DATA"]).official_split("test")
    assert [file.split("-")[0] for file in files] == LABELS[10]
    for label, file in enumerate(files):
        number = int(file.removesuffix(".png").split("-")[1])
        assert test.targets[number] == label
        assert (numpy.asarray(Image.open(tmp_path / file)) == test.data[number]).all()
