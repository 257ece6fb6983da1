"""The pictures page in headless Chromium: what it computes, shows and says."""

import json
import time

import numpy
import PIL
import pytest
import torch
from PIL import Image, ImageOps
from speech_page import WAIT_MS, opened, served
from tiny import ROOT

import vitspeech
from vitspeech.data.images.reading import read_picture
from vitspeech.export.demo import write_demo
from vitspeech.receptive.heads.figure import forward_with_attention
from vitspeech.samples import FOLDER

VIT, CNN = "vit-cifar10", "cnn-cifar10"  # folders of the fixture `exported`
MAP = f"[data-model={VIT}] .map"


@pytest.fixture(scope="module")
def window(tmp_path_factory, browser, exported, runtime):
    """A window with the page of the released ViT and CNN; the camera is a test pattern."""
    folder = tmp_path_factory.mktemp("demo") / "page"
    write_demo([exported(VIT), exported(CNN)], folder, runtime, vitspeech.load)
    with served(folder) as address, opened(browser, address) as page:
        yield page


@pytest.fixture
def page(window):
    """The page, with no patch chosen."""
    window.set_viewport_size({"width": 1200, "height": 900})
    window.mouse.move(5, 5)
    window.locator(MAP).focus()
    window.keyboard.press("Escape")
    return window


def random_picture(size, mode="RGB", seed=0):
    """A picture of noise, coarse and fine."""
    numbers = numpy.random.default_rng(seed)
    channels = {"RGB": 3, "RGBA": 4, "L": 1}[mode]
    coarse = Image.fromarray(numbers.integers(0, 256, (4, 5, 3), dtype=numpy.uint8)).resize(size)
    fine = numbers.integers(0, 256, (size[1], size[0], channels), dtype=numpy.uint8)
    pixels = fine.astype(int) // 2 + numpy.asarray(coarse)[..., :1] // 2
    if mode == "RGBA":
        pixels[..., 3] = fine[..., 3]
    return Image.fromarray(pixels.astype(numpy.uint8).squeeze(), mode)


def wait(page, expression):
    """Wait until a JavaScript expression is true; Playwright's own way needs eval, which the page forbids."""
    end = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def choose(page, file):
    """Choose a file, and wait until all models have classified it."""
    page.set_input_files("#panel-images input[type=file]", file)
    wait(page, f"document.getElementById('panel-images').dataset.shown === {json.dumps(file.name)}")


def shown(page, model):
    """The probabilities in the panel of a model, by label."""
    rows = f"document.querySelectorAll('[data-model={model}] .line')"
    pairs = page.evaluate(f"[...{rows}].map((row) => [row.dataset.label, Number(row.dataset.value)])")
    return dict(pairs)


def inputs_of(model, file):
    """A picture as the network takes it: (1, 3, N, N)."""
    mean, std = (torch.tensor(model.preprocessing[name]).view(3, 1, 1) for name in ("mean", "std"))
    return ((read_picture(file, model.preprocessing["image"]) / 255 - mean) / std)[None]


def status(page):
    """The sentence below the attention map."""
    return page.evaluate(f"document.querySelector('[data-model={VIT}] .status').textContent")


def place(page, row, column):
    """The middle of a patch of the map in the window, as the page is scrolled."""
    box = f"document.querySelector('[data-model={VIT}] .map')"
    page.evaluate(f"{box}.scrollIntoView({{block: 'center'}})")
    left, top, width = page.evaluate(f"(({{left, top, width}}) => [left, top, width])({box}.getBoundingClientRect())")
    return left + (column + 0.5) * width / 8, top + (row + 0.5) * width / 8


@pytest.mark.parametrize("name", ["tall.png", "gray.png", "transparent.png", "turned.jpg", "small.webp"])
def test_probabilities_are_those_of_torch(page, tmp_path, name):
    """Pictures of several modes and formats; a JPEG is turned by its EXIF orientation."""
    mode = {"gray.png": "L", "transparent.png": "RGBA"}.get(name, "RGB")
    picture = random_picture({"tall.png": (61, 110), "small.webp": (21, 17)}.get(name, (97, 70)), mode)
    options = {"small.webp": {"lossless": True}, "turned.jpg": {"quality": 95, "subsampling": 0}}.get(name, {})
    if name == "turned.jpg":
        exif = Image.Exif()
        exif[0x0112] = 6
        options["exif"] = exif
    picture.save(tmp_path / name, **options)
    choose(page, tmp_path / name)
    for panel in (VIT, CNN):
        model = vitspeech.load(ROOT / "checkpoints" / panel)
        with torch.inference_mode():
            expected = model.network(inputs_of(model, tmp_path / name)).softmax(-1)[0]
        computed = shown(page, panel)
        assert list(computed) == model.labels
        assert numpy.abs(numpy.array(list(computed.values())) - expected.numpy()).max() < 1e-3


def test_the_resized_picture_is_that_of_pillow(page):
    """Random pixels, up and down, wide and tall, and a cut-out that begins at half a pixel."""
    tall = [] if int(PIL.__version__.split(".")[0]) < 13 else [(47, 200, 32), (20, 61, 32)]  # columns first since 13
    sizes = [(32, 32, 32), (33, 32, 32), (47, 60, 32), (7, 9, 24), (301, 200, 64), *tall]
    for number, (width, height, side) in enumerate(sizes):
        picture = random_picture((width, height), seed=number)
        pixels = numpy.asarray(picture.convert("RGBA")).ravel().tolist()
        call = f"module.fitted(Uint8Array.from({pixels}), {width}, {height}, {side})"
        computed = page.evaluate(f"import('./picture_pixels.js').then((module) => [...{call}])")
        expected = numpy.asarray(ImageOps.fit(picture, (side, side), Image.Resampling.BICUBIC))
        assert (numpy.array(computed).reshape(side, side, 3) == expected).all()


def test_hovering_a_patch_shows_what_it_attends_to(page, tmp_path):
    file = tmp_path / "noise.png"
    random_picture((60, 50)).save(file)
    choose(page, file)
    model = vitspeech.load(ROOT / "checkpoints" / "vit-cifar10")
    weights = forward_with_attention(model.network, inputs_of(model, file)).weights[:, 0]
    assert status(page).startswith("All patches together attend most to ")
    map_of = f"document.querySelector('[data-model={VIT}] .map').toDataURL()"
    before = page.evaluate(map_of)
    page.evaluate(f"""(() => {{
        const [layer, head] = document.querySelectorAll('[data-model={VIT}] select');
        for (const [select, value] of [[layer, 1], [head, 2]]) {{ select.value = value; select.onchange(); }}
    }})()""")
    for row, column in ((2, 5), (6, 0)):
        page.mouse.move(*place(page, row, column))
        most = int(weights[1, 1, 8 * row + column].argmax())
        value = 64 * float(weights[1, 1, 8 * row + column].max())
        start, number = status(page).removesuffix(" × uniform.").rsplit(": ", 1)
        assert start == (f"The patch in row {row + 1}, column {column + 1} attends most to "
                         f"row {most // 8 + 1}, column {most % 8 + 1}")  # fmt: skip
        assert float(number) == pytest.approx(value, abs=0.051)  # one decimal
        after = page.evaluate(map_of)
        assert after != before
        before = after
    page.mouse.move(5, 5)
    assert status(page).startswith("All patches together")


def test_a_patch_is_chosen_by_touch_or_click_and_by_keys(page):
    x, y = place(page, 3, 3)
    page.mouse.click(x, y)
    page.mouse.move(5, 5)
    assert status(page).startswith("The patch in row 4, column 4 attends")
    assert page.evaluate(f"document.activeElement === document.querySelector('[data-model={VIT}] .map')")
    for key in ("ArrowUp", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert status(page).startswith("The patch in row 3, column 2 attends")
    for _ in range(5):
        page.keyboard.press("ArrowLeft")  # and stays at the border
    assert status(page).startswith("The patch in row 3, column 1 attends")
    page.keyboard.press("Escape")
    assert status(page).startswith("All patches together")


def test_models_stand_side_by_side_and_below_each_other(page):
    panels = f"['{VIT}', '{CNN}'].map((name) => document.querySelector(`[data-model=${{name}}]`))"
    boxes = f"{panels}.map((panel) => panel.getBoundingClientRect().toJSON())"
    vit, cnn = page.evaluate(boxes)
    assert vit["right"] <= cnn["left"] and vit["top"] == cnn["top"]
    for width in (400, 800, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 400, "height": 900})
    vit, cnn = page.evaluate(boxes)
    assert vit["bottom"] <= cnn["top"]
    assert "no attention weights" in page.evaluate(f"document.querySelector('[data-model={CNN}]').textContent")
    assert page.evaluate(
        f"/^\\d+\\.\\d ms per image/.test(document.querySelector('[data-model={CNN}] .time').textContent)"
    )


def test_a_broken_picture_is_named_and_the_last_one_stays(page, tmp_path):
    before = shown(page, VIT)
    (tmp_path / "notes.png").write_text("no picture")
    page.set_input_files("#panel-images input[type=file]", tmp_path / "notes.png")
    wait(page, "document.getElementById('alert').textContent.startsWith(\"notes.png can't be decoded as an image\")")
    assert shown(page, VIT) == before
    choose(page, FOLDER / "horse.jpg")
    assert page.evaluate("document.getElementById('alert').hidden")


def test_camera(page):
    button = "document.querySelector('#panel-images .input button')"
    page.evaluate(f"{button}.click()")
    wait(page, "document.getElementById('alert').textContent.startsWith('The camera was refused.')")
    page.context.grant_permissions(["camera"])
    page.evaluate(f"{button}.click()")
    wait(page, "document.getElementById('panel-images').dataset.shown === 'camera'")
    assert page.evaluate(f"{button}.textContent") == "Take photo"
    assert page.evaluate("document.getElementById('alert').hidden")
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{button}.textContent") == "Use camera"
    assert abs(sum(shown(page, VIT).values()) - 1) < 1e-4
