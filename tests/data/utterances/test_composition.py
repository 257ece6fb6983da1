"""Utterances: the sound of one against the sum written out, a batch of them, and manifests kept, altered and broken."""

import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vitspeech.data.files import sha256
from vitspeech.data.utterances.composition import (
    Utterance,
    check,
    collated,
    composed,
    read_manifest,
    write_manifest,
)
from vitspeech.data.utterances.word_clips import WordClip

FADE, LEVEL = 640, 0.05  # as the file says them: 40 ms at 16 kHz, and -26 dB of full scale
INAUDIBLE = 120.0  # dB: a thousandth of a step of 16 bits
STEP = 1 / 32768


def clip(name="a", count=4001, level=1000.0, seed=0):
    samples = numpy.random.default_rng(seed).normal(0, level, count).round().clip(-32768, 32767).astype(numpy.int16)
    return WordClip(name, f"word {name}", "anna", samples, 0, count)


def constant(name="c", count=4001, value=1000):
    return WordClip(name, f"word {name}", "anna", numpy.full(count, value, numpy.int16), 0, count)


CLIPS = {"a": clip("a", 4001, seed=1), "b": clip("b", 5003, 300, seed=2), "c": constant("c", 3001)}
NOISES = {"fan": clip("fan", 1009, 700, seed=3).samples, "tap": clip("tap", 30_011, 90, seed=4).samples}


def utterance(*said, samples=20_011, noise=("fan", 0), snr_db=INAUDIBLE):
    """Of (clip, first, last, start) each."""
    clips, starts = [name for name, *_ in said], [start for *_, start in said]
    cuts = [[first, last] for _, first, last, _ in said]
    return Utterance("u", [f"word {name}" for name in clips], samples, clips, cuts, starts, list(noise), snr_db)


def sound_of(*said, clips=CLIPS, noises=NOISES, **rest):
    return composed(utterance(*said, **rest), clips, noises).astype(numpy.float64)


def written_out(said, clips=CLIPS, noises=NOISES):
    """The same sound, by its definition and with every sample of a clip weighted: steps of 16 bits, not yet whole."""
    time = numpy.arange(said.samples)
    total = numpy.zeros(said.samples)
    for name, (first, last), start in zip(said.clips, said.cuts, said.starts, strict=True):
        source = clips[name].samples / 32768
        place = time - start + first  # in the clip
        away = numpy.maximum(first - place, place - last + 1)  # samples outside of the word, from 1 on
        weight = numpy.where(away > 0, numpy.sin(numpy.pi / 2 * (FADE - away + 0.5) / FADE) ** 2, 1)
        weight[(away > FADE) | (place < 0) | (place >= len(source))] = 0
        level = numpy.sqrt(sum(value**2 for value in source[first:last]) / (last - first))
        total += weight * source[place.clip(0, len(source) - 1)] * LEVEL / level
    name, offset = said.noise
    under = noises[name][(offset + time) % len(noises[name])] / 32768
    total += under / numpy.sqrt((under**2).mean()) * LEVEL / 10 ** (said.snr_db / 20)
    return (total * 32768).clip(-32768, 32767)


@st.composite
def drawn_utterances(draw):
    samples = draw(st.integers(2003, 9001))
    said = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(CLIPS)))
        lasts = draw(st.integers(401, 1999))
        first = draw(st.integers(0, len(CLIPS[name].samples) - lasts))
        said.append((name, first, first + lasts, draw(st.integers(0, samples - lasts))))
    noise = draw(st.sampled_from(sorted(NOISES)))
    place = draw(st.integers(0, len(NOISES[noise]) - 1))
    return utterance(*said, samples=samples, noise=(noise, place), snr_db=draw(st.floats(-5, 50)))


@settings(deadline=None, max_examples=100)
@given(drawn_utterances())
def test_an_utterance_is_the_sum_of_its_faded_words_and_noise_as_written_out(said):
    sound = composed(said, CLIPS, NOISES)
    assert sound.dtype == numpy.int16 and sound.shape == (said.samples,)
    assert numpy.abs(sound - written_out(said)).max() < 0.51  # rounding


@pytest.mark.parametrize(("name", "first", "last"), [("a", 1201, 2903), ("b", 701, 4201)])
def test_a_words_samples_stand_at_its_start_brought_to_the_level(name, first, last):
    sound = sound_of((name, first, last, 5003))
    source = CLIPS[name].samples[first:last].astype(numpy.float64)
    gain = LEVEL * 32768 / numpy.sqrt((source**2).mean())
    assert numpy.abs(sound[5003 : 5003 + last - first] - gain * source).max() < 0.6
    peaks = numpy.correlate(sound, source, mode="valid")
    assert peaks.argmax() == 5003


def test_words_of_any_loudness_come_out_as_loud():
    sound = sound_of(("a", 1201, 2903, 2003), ("b", 701, 4201, 8009), ("c", 701, 2003, 16_001))
    for start, lasts in ((2003, 1702), (8009, 3500), (16_001, 1302)):
        assert numpy.sqrt((sound[start : start + lasts] ** 2).mean()) * STEP == pytest.approx(LEVEL, rel=1e-3)


def test_fades_are_outside_of_the_cut_and_40_ms_long():
    # A clip of one value shows its weights.
    sound = sound_of(("c", 1009, 2003, 5003)) / (LEVEL * 32768)
    end = 5003 + 994
    assert numpy.abs(sound[5003:end] - 1).max() < 1e-3
    assert not sound[: 5003 - 640].any() and not sound[end + 640 :].any()
    rise, fall = sound[5003 - 640 : 5003], sound[end : end + 640]
    assert (numpy.diff(rise) >= 0).all() and rise[0] < 1e-3 and rise[-1] > 0.999
    assert rise[160] == pytest.approx(numpy.sin(numpy.pi / 8) ** 2, abs=5e-3) and rise[320] == pytest.approx(
        0.5, abs=5e-3
    )
    assert fall == pytest.approx(rise[::-1], abs=1e-3)  # a step


def test_what_surrounds_the_cut_does_not_change_the_words_level():
    quiet = CLIPS["a"].samples.copy()
    quiet[:1201] = quiet[2903:] = 0
    sounds = [
        sound_of(("a", 1201, 2903, 5003)),
        sound_of(("a", 1201, 2903, 5003), clips={"a": dataclasses.replace(CLIPS["a"], samples=quiet)}),
    ]
    assert_array_equal(*(sound[5003 : 5003 + 1702] for sound in sounds))
    assert sounds[0][5003 - 640 : 5003].any() and not sounds[1][5003 - 640 : 5003].any()


def test_fades_that_overlap_add():
    one, other = ("a", 1201, 2203, 5003), ("b", 701, 2801, 6005 + 401)
    both, first, second = sound_of(one, other), sound_of(one), sound_of(other)
    assert (first[6005:6405] * second[6005:6405]).any()
    assert numpy.abs(both - first - second).max() <= 1.5  # three roundings


def test_a_fade_lies_over_its_neighbor_where_there_is_no_silence():
    sound = sound_of(("c", 1009, 2003, 5003), ("c", 1009, 2003, 5997)) / (LEVEL * 32768)
    assert sound[5996] == pytest.approx(2, abs=5e-3) and sound[5997] == pytest.approx(2, abs=5e-3)
    assert sound[5003:5356] == pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize(
    ("said", "samples", "heard"),
    [
        (("c", 0, 3001, 1009), 5003, (1009, 4010)),  # all of a clip: nothing to fade in or out
        (("c", 0, 2003, 1009), 5003, (1009, 3012 + 640)),
        (("c", 1009, 3001, 1009), 5003, (1009 - 640, 3001)),
        (("c", 1009, 2003, 0), 5003, (0, 994 + 640)),  # at the utterance's beginning
        (("c", 1009, 2003, 4009), 5003, (4009 - 640, 5003)),  # and at its end
        (("c", 1009, 2003, 0), 994, (0, 994)),
        (("c", 101, 2900, 307), 3307, (307 - 101, 307 + 2799 + 101)),  # as much as there is
        (("c", 0, 3001, 0), 3001, (0, 3001)),
    ],
)
def test_a_word_without_room_to_fade_ends_at_once(said, samples, heard):
    sound = sound_of(said, samples=samples)
    begin, end = heard
    assert len(sound) == samples and not sound[:begin].any() and not sound[end:].any()
    _, first, last, start = said
    assert sound[start : start + last - first] == pytest.approx(LEVEL * 32768, abs=0.6)
    if begin == start or first < 640:
        assert sound[begin] > 10  # no fade from nothing


@pytest.mark.parametrize("snr_db", [-5.0, 0.0, 10.0, 30.0])
@pytest.mark.parametrize("noise", [("fan", 503), ("tap", 29_009)])
def test_the_words_energy_over_the_noises_is_the_ratio(snr_db, noise):
    said = ("a", 1201, 2903, 5003), ("b", 701, 4201, 9001)
    clean = sound_of(*said)
    added = sound_of(*said, noise=noise, snr_db=snr_db) - clean
    words = numpy.concatenate((clean[5003:6705], clean[9001:12_501]))
    assert 10 * numpy.log10((words**2).mean() / (added**2).mean()) == pytest.approx(snr_db, abs=0.1)


def test_noise_lies_under_all_of_it_from_its_first_sample_on_and_again_from_its_beginning():
    silent = {"a": dataclasses.replace(CLIPS["a"], samples=numpy.zeros(4001, numpy.int16))}
    sound = sound_of(("a", 0, 401, 0), clips=silent, samples=3001, noise=("fan", 701), snr_db=0)
    expected = numpy.concatenate((NOISES["fan"][701:], NOISES["fan"], NOISES["fan"], NOISES["fan"]))[:3001]
    assert numpy.corrcoef(sound, expected)[0, 1] > 0.99999
    assert_array_equal(sound[308 : 308 + 1009], sound[308 + 1009 : 308 + 2018])


def test_a_silent_word_and_silent_noise_stay_silent():
    silent = {"a": dataclasses.replace(CLIPS["a"], samples=numpy.zeros(4001, numpy.int16))}
    assert not sound_of(
        ("a", 701, 2003, 1009), clips=silent, noises={"fan": numpy.zeros(53, numpy.int16)}, snr_db=0
    ).any()


def test_a_word_that_is_all_but_silent_is_not_blown_up():
    faint = {"a": constant("a", value=1)}
    assert sound_of(("a", 701, 2003, 1009), clips=faint)[1009] == 500  # by 54 dB at most: 1e-4 counts as silent


def test_peaks_beyond_16_bits_are_cut_off():
    spiky = numpy.zeros(4001, numpy.int16)
    spiky[2003], spiky[2503] = 32767, -32768
    sound = sound_of(("a", 1201, 2903, 1009), clips={"a": dataclasses.replace(CLIPS["a"], samples=spiky)})
    assert (sound[1009 + 802], sound[1009 + 1302]) == (32767, -32768)
    assert (sound != 0).sum() == 2


def test_composing_again_gives_the_same_and_changes_no_clip():
    before = (
        {name: some.samples.copy() for name, some in CLIPS.items()},
        {name: noise.copy() for name, noise in NOISES.items()},
    )
    said = [("a", 1201, 2903, 5003), ("b", 701, 4201, 7001)]
    assert_array_equal(sound_of(*said, snr_db=3.1), sound_of(*said, snr_db=3.1))
    assert all(numpy.array_equal(CLIPS[name].samples, samples) for name, samples in before[0].items())
    assert all(numpy.array_equal(NOISES[name], noise) for name, noise in before[1].items())


def test_a_batch_is_padded_at_the_ends():
    some = [
        utterance(("a", 1201, 2903, 5003), samples=7001),
        utterance(("b", 701, 4201, 1009), ("a", 0, 401, 6007), ("c", 1009, 2003, 6499), samples=9001),
    ]
    sounds = [composed(each, CLIPS, NOISES) for each in some]
    speech = collated(sounds, [[5, 0, 7, 7, 2], [3]], some)
    assert speech.waveforms.dtype == torch.int16 and speech.waveforms.shape == (2, 9001)
    assert_array_equal(speech.waveforms[0, :7001], sounds[0])
    assert_array_equal(speech.waveforms[1], sounds[1])
    assert not speech.waveforms[0, 7001:].any()
    assert speech.lengths.tolist() == [7001, 9001]
    assert speech.units.tolist() == [[5, 0, 7, 7, 2], [3, -1, -1, -1, -1]]
    assert speech.spans.tolist() == [[[5003, 6705], [0, 0], [0, 0]], [[1009, 4509], [6007, 6408], [6499, 7493]]]
    assert {part.dtype for part in speech[1:]} == {torch.int64}


# Manifests.

GOOD = utterance(("a", 1201, 2903, 5003), ("b", 701, 4201, 7001), noise=("tap", 17), snr_db=12.25)


def manifest(folder, *lines, name="words.jsonl"):
    """A file of these lines, with its true sum beside it."""
    file = folder / name
    file.write_text("".join(f"{line}\n" for line in lines))
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n")
    return file


def line(**changes):
    return json.dumps(dataclasses.asdict(GOOD) | changes)


@st.composite
def any_utterances(draw):
    count = draw(st.integers(1, 5))

    def listed(each):
        return draw(st.lists(each, min_size=count, max_size=count))

    cuts = [[first, first + lasts] for first, lasts in listed(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)))]
    starts = listed(st.integers(0, 10**6))
    ends = [start + last - first for start, (first, last) in zip(starts, cuts, strict=True)]
    return Utterance(
        draw(st.text()),
        listed(st.text()),
        max(ends) + draw(st.integers(0, 999)),
        listed(st.text()),
        cuts,
        starts,
        [draw(st.text()), draw(st.integers(0, 10**9))],
        draw(st.floats(allow_nan=False, allow_infinity=False)),
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(any_utterances(), min_size=1, max_size=4))
def test_a_manifest_reads_as_it_was_written(utterances):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.jsonl"
        digest = write_manifest(utterances, str(file))
        assert digest == sha256(file) == hashlib.sha256(file.read_bytes()).hexdigest()
        assert read_manifest(str(file)) == utterances
        assert [set(json.loads(text)) for text in file.read_bytes().decode("ascii").split("\n")[:-1]] == [
            {"id", "words", "samples", "clips", "cuts", "starts", "noise", "snr_db"} for _ in utterances
        ]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum")
def test_sha256sum_agrees_with_the_sums(tmp_path):
    for name in ("b.jsonl", "a b.jsonl", "c.jsonl"):
        write_manifest([GOOD], tmp_path / name)
    write_manifest([GOOD, GOOD], tmp_path / "c.jsonl")
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout.splitlines()) == (0, ["a b.jsonl: OK", "b.jsonl: OK", "c.jsonl: OK"])
    (tmp_path / "b.jsonl").write_text("other")
    assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True).returncode == 1


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum")
@pytest.mark.parametrize("option", ["--text", "--binary"])
def test_sums_that_sha256sum_wrote_are_read_and_kept(tmp_path, option):
    write_manifest([GOOD], tmp_path / "words.jsonl")
    (tmp_path / "other").write_text("something")
    command = ["sha256sum", option, "other", "words.jsonl"]
    (tmp_path / "SHA256SUMS").write_bytes(subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout)
    assert read_manifest(tmp_path / "words.jsonl") == [GOOD]
    write_manifest([GOOD, GOOD], tmp_path / "words.jsonl")
    assert (
        subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True).returncode
        == 0
    )
    assert "other" in (tmp_path / "SHA256SUMS").read_text()


def test_the_same_utterances_make_the_same_file(tmp_path):
    assert write_manifest([GOOD], tmp_path / "one.jsonl") == write_manifest([GOOD], tmp_path / "other.jsonl")


def test_an_altered_byte_is_an_error_that_names_both_sums(tmp_path):
    file = tmp_path / "words.jsonl"
    kept = write_manifest([GOOD, GOOD], file)
    content = bytearray(file.read_bytes())
    content[content.index(b"12.25")] += 1  # 22.25 dB: still an utterance
    file.write_bytes(content)
    found = hashlib.sha256(content).hexdigest()
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: its sha256 is {found}, but SHA256SUMS says {kept}"):
        read_manifest(file)


@pytest.mark.parametrize("sums", [None, "", "0" * 64 + "  other.jsonl\n"])
def test_a_manifest_without_a_sum_is_refused(tmp_path, sums):
    file = manifest(tmp_path, line())
    (tmp_path / "SHA256SUMS").unlink() if sums is None else (tmp_path / "SHA256SUMS").write_text(sums)
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: .*SHA256SUMS beside it has no line for it"):
        read_manifest(file)


@pytest.mark.parametrize("name", ["none.jsonl", "."])
def test_a_missing_manifest_is_an_error_that_names_it(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(str(tmp_path / name))}: no such manifest"):
        read_manifest(tmp_path / name)


def test_a_manifest_of_no_utterances_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no utterances"):
        read_manifest(manifest(tmp_path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{broken", "Expecting property name"),
        ("", "Expecting value"),
        ("[1, 2]", "mapping"),
        ("7", "mapping"),
        ('{"id": "u"}', "missing 7 required"),
        (line(color="red"), "'color'"),
        (line(words=[], clips=[], cuts=[], starts=[]), "its transcript is empty"),
        (line(words=["go"]), "words, clips, cuts and starts are 1, 2, 2, 2, not as many"),
        (line(starts=[1, 2, 3]), "are 2, 2, 2, 3, not as many"),
        (line(samples=10_500), "'word b', cut 701 to 4201, does not fit at 7001 of 10500 samples"),
        (line(starts=[-1, 7001]), "'word a', cut 1201 to 2903, does not fit at -1 of 20011 samples"),
        (line(cuts=[[2903, 1201], [701, 4201]]), "'word a', cut 2903 to 1201, does not fit"),
        (line(cuts=[[1201, 1201], [701, 4201]]), "'word a', cut 1201 to 1201, does not fit"),
        (line(cuts=[[-7, 1201], [701, 4201]]), "'word a', cut -7 to 1201, does not fit"),
        (line(cuts=[[1201], [701, 4201]]), "unpack"),
        (line(cuts=[[1201, 2903.5], [701, 4201]]), "no integer"),
        (line(starts=["5003", 7001]), "not supported between"),
        (line(samples="20011"), "not supported between|unsupported operand"),
        (line(samples=None), "not supported between|unsupported operand"),
        (line(noise=[]), r"noise=\[\] is no recording with its first sample"),
        (line(noise="hiss"), "noise=hiss is no recording"),
        (line(noise=["hiss", -1]), r"noise=\['hiss', -1\] is no recording"),
        (line(noise=["hiss", 1.5]), r"noise=\['hiss', 1.5\] is no recording"),
        (line(snr_db="loud"), "must be real number"),
        (line(snr_db=float("nan")), "snr_db=nan is not finite"),
    ],
)
def test_a_line_that_is_no_utterance_is_named_with_what_is_wrong(tmp_path, text, reason):
    file = manifest(tmp_path, line(), line(), text, line())
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: line 3 is no utterance: .*(?:{reason})"):
        read_manifest(file)


def test_a_word_may_fill_its_utterance():
    check(utterance(("a", 1201, 2903, 0), samples=1702))
    with pytest.raises(ValueError, match="does not fit at 0 of 1701 samples"):
        check(utterance(("a", 1201, 2903, 0), samples=1701))
