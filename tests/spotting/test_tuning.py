"""The choice of thresholds: recall at a rate of false alarms that holds in speech that was not heard."""

import math
from copy import copy
from dataclasses import replace

import numpy
import pytest
import torch
from spotting_data import spotter, write_speech, write_words

from vitspeech.data.clips.folder import word_recordings
from vitspeech.decoding.keywords import Detection, SpottingSettings
from vitspeech.errors import InputError
from vitspeech.files import read_json
from vitspeech.spotting.counts import Counts
from vitspeech.spotting.listening import Heard, judged
from vitspeech.spotting.measure import Plan, measure
from vitspeech.spotting.streams import Recording, SaidWord, Stream
from vitspeech.spotting.tune import (
    GRID,
    LASTING,
    REFRACTORY_S,
    STEPS,
    UNSURE,
    Tuned,
    alarm_rates,
    attempt,
    check_card,
    choose,
    choose_after_training,
    rank,
    save_settings,
    settle,
    table,
    tune,
    wanted_rates,
    with_refractory,
)

WORDS = [f"word{number}" for number in range(12)]
HOURS, AT_HALF, SCALE = 1.0, 40.0, 1.2  # alarms per hour of each word above a probability of 0.5; scale of their logits


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def drawn(seed, at_half=AT_HALF):
    """Counts of an hour of speech whose alarms have exponential logits, and of words with logits around 5."""
    generator = numpy.random.default_rng(seed)
    nothing = torch.zeros(0, dtype=torch.int16)
    speech = Stream("speech", "s", None, nothing, (Recording("s", "s", 0.0, 3600 * HOURS, None),))
    said = tuple(
        SaidWord(word, f"{number}", "c", 2.0 * number, 2.0 * number + 0.5) for number, word in enumerate(WORDS * 20)
    )
    keywords = Stream("keywords", "k", math.inf, nothing, (Recording("k", "k", 0.0, 1000.0, None),), said)
    heard = [Heard(stream, stream.recordings[0].end_s, torch.zeros(0, 12), None) for stream in (speech, keywords)]
    candidates = []
    for word in WORDS:
        for logit in generator.exponential(SCALE, generator.poisson(at_half * HOURS)):
            start = generator.uniform(0, 3600)
            candidates.append(judged(Detection(word, start, start + 0.4, sigmoid(logit), start + 1), 0, speech))
    for word in said:
        found = Detection(word.label, word.start_s, word.end_s, sigmoid(generator.normal(5, 2)), word.end_s + 0.5)
        candidates.append(judged(found, 1, keywords))
    return Counts(WORDS, heard, candidates, 0.0)


def true_rate(thresholds):
    """The rate of alarms in unheard speech."""
    return sum(AT_HALF * math.exp(-max(math.log(p / (1 - p)), 0) / SCALE) for p in thresholds.values())


def test_the_wanted_rate_holds_in_speech_that_was_not_heard():
    rates, recalls = [], []
    for seed in range(10):
        choice = choose(drawn(seed), {"speech": 2.0})
        rates.append(true_rate(choice.thresholds))
        recalls.append(choice.recall)
        assert choice.expected["speech"] <= 2.0
    assert 1.0 < numpy.mean(rates) < 3.0
    # A true rate of 2 is at the logit SCALE · ln(12 · 40 / 2) = 6.6, where a fifth of the words is found.
    assert numpy.mean(recalls) > 0.15


def test_without_any_alarm_a_rate_of_one_in_the_hours_heard_is_expected_to_hold():
    choice = choose(drawn(0, at_half=0.0), {"speech": 1.0})
    assert choice.recall > 0.95 and 0 < choice.expected["speech"] <= 1.0


def test_a_threshold_is_not_above_one_half_without_need_and_below_it_only_if_that_finds_words():
    counts = drawn(0, at_half=0.0)
    matched = counts.level >= 0
    counts.logit[matched] = 9.0  # found at any threshold, which says nothing of others
    assert set(choose(counts, {"speech": 10.0}).thresholds.values()) == {0.5}
    counts.logit[numpy.flatnonzero(matched)[:3]] = -1.05
    assert set(choose(counts, {"speech": 10.0}).thresholds.values()) == {sigmoid(-1.1)}


@pytest.mark.parametrize("logit", [-12.0, -math.inf])
def test_an_improbable_alarm_changes_no_rate(logit):
    counts = drawn(0)
    alarms = numpy.flatnonzero(counts.condition == 0)
    counts.logit[alarms] = -50.0
    counts.logit[alarms[:2]] = 3.0, 1.0
    before = alarm_rates(counts)
    assert before[0, STEPS == 0] == 2 and (before[0, STEPS <= 1] >= 2).all()
    counts.logit[alarms[2]] = logit
    assert numpy.array_equal(alarm_rates(counts), before)


def test_the_threshold_after_a_training_is_the_lowest_one_that_the_fitted_tail_allows():
    counts = drawn(0)
    choice = choose_after_training(counts, 2.0)
    step = numpy.abs(1 / (1 + numpy.exp(-STEPS)) - choice.thresholds["word0"]).argmin()
    assert choice.expected["speech"] <= 2.0 < alarm_rates(counts, smooth=True)[0, step - 1]
    assert numpy.array_equal(choice.point.alarms, counts.at(choice.thresholds).alarms)


def test_of_few_alarms_the_tail_falls_by_e_with_each_unit_of_the_logit():
    counts = drawn(0)
    alarms = numpy.flatnonzero(counts.condition == 0)
    counts.logit[alarms] = -50.0
    counts.logit[alarms[:3]] = -1.0, 0.2, 0.4
    counts.said = counts.said // 20  # too few to tell
    hours = counts.alarm_interval(counts.at(dict.fromkeys(WORDS, 0.5)), 0)["hours"]
    expected = numpy.ceil(10 * (math.log(3 / hours / 0.5) - 1)) / 10
    assert choose_after_training(counts, 0.5).thresholds["word0"] == pytest.approx(sigmoid(expected))


@pytest.mark.parametrize(("probable", "is_half"), [([0.4], True), ([0.4, 0.2], False)])
def test_after_a_training_a_threshold_above_one_half_needs_more_than_one_alarm(probable, is_half):
    counts = drawn(0)
    alarms = numpy.flatnonzero(counts.condition == 0)
    counts.logit[alarms] = -50.0
    counts.logit[alarms[:20]] = numpy.linspace(-0.1, -4.0, 20)  # the fitted tail reaches the rate above one half
    counts.logit[alarms[: len(probable)]] = probable
    counts.said = counts.said // 20  # too few to tell
    threshold = choose_after_training(counts, 0.5).thresholds["word0"]
    assert threshold == 0.5 if is_half else threshold > 0.5


def test_one_alarm_far_above_the_others_does_not_decide_the_threshold_after_a_training():
    counts = drawn(0, at_half=2.0)
    alarms = numpy.flatnonzero(counts.condition == 0)
    before = choose_after_training(counts, 0.5).thresholds["word0"]
    counts.logit[alarms[counts.logit[alarms].argmax()]] = 9.0
    after = choose_after_training(counts, 0.5).thresholds["word0"]
    assert before < after < sigmoid(9.0) < choose(counts, {"speech": 0.5}).thresholds["word0"]


def test_the_threshold_after_a_training_is_low_unless_many_words_tell_that_it_need_not_be():
    counts = drawn(0, at_half=1.0)
    counts.logit[counts.level >= 0] = 9.0  # found at any threshold
    assert counts.said[0].sum() == 240
    assert set(choose_after_training(counts, 100.0).thresholds.values()) == {0.5}
    said = counts.said
    counts.said = said // 3  # 80 words that are all found tell too little to raise it
    assert set(choose_after_training(counts, 100.0).thresholds.values()) == {sigmoid(-2.2)}
    counts.said = said // 20
    assert set(choose_after_training(counts, 100.0).thresholds.values()) == {sigmoid(-2.2)}
    assert choose_after_training(counts, 1e-9).thresholds["word0"] > 0.999


def test_conditions_that_do_not_count_are_not_limited():
    counts = drawn(0)
    assert choose(counts, {}).recall > choose(counts, {"speech": 1.0}).recall


@pytest.fixture(scope="module")
def measurement(tmp_path_factory):
    root = tmp_path_factory.mktemp("heard")
    plan = Plan(write_words(root / "words"), write_speech(root / "speech"), split="all", clips=12)
    return measure(spotter(), plan, with_others=False)


def test_settings_are_chosen_with_thresholds_for_every_word(measurement):
    wanted = {"speech": 3000.0}
    tuned = tune(measurement, wanted)
    assert set(tuned.settings.thresholds) == {"go", "stop"}
    assert tuned.choice.expected["speech"] <= 3000.0
    again = measurement.counts(tuned.settings).at(tuned.settings.thresholds)
    assert numpy.array_equal(again.alarms, tuned.choice.point.alarms)
    lines = table(tuned, wanted)
    assert "clean" in lines[0] and lines[-1].startswith("3000 ")
    assert sum("not reached" in line for line in lines) == 1 and "not reached" in lines[1]


def test_few_words_choose_neither_settings_nor_a_higher_threshold(measurement):
    own = replace(measurement.listener.settings, refractory_s=0.7)
    few = replace(measurement, listener=copy(measurement.listener))
    few.listener.settings = own
    tuned = tune(few, {"speech": 3000.0})
    assert tuned.settings == replace(own, thresholds=dict.fromkeys(("go", "stop"), tuned.settings.threshold("go")))
    counts = drawn(0, at_half=0.0)
    counts.logit[counts.level >= 0] = 9.0  # found at any threshold
    counts.said = counts.said // 20
    assert set(choose(counts, {"speech": 10.0}).thresholds.values()) == {sigmoid(-2.2)}
    counts.logit[counts.level >= 0] = -3.0  # found below that alone
    assert choose(counts, {"speech": 10.0}).recall > 0


def test_no_other_value_of_the_grid_is_better_than_the_first_one_chosen_nor_than_the_last(measurement, monkeypatch):
    monkeypatch.setattr("vitspeech.spotting.tune.TELLING", 1)
    wanted = {"speech": 3000.0}
    tuned, first = tune(measurement, wanted), replace(measurement.listener.settings, refractory_s=0.0)
    last = replace(tuned.settings, refractory_s=0.0)
    name, values = list(GRID.items())[-1]
    others = [replace(first, token_probability=value) for value in GRID["token_probability"]]
    for settings in [*others, *(replace(last, **{name: value}) for value in values)]:
        assert rank(tuned, wanted) >= rank(attempt(measurement, settings, wanted), wanted)


@pytest.mark.parametrize(("words_s", "expected"), [((2.0, 4.0), 0.3), ((2.0, 2.2), 0.0)])
def test_a_refractory_period_is_taken_if_it_costs_no_word(words_s, expected):
    nothing = torch.zeros(0, dtype=torch.int16)
    speech = Stream("speech", "s", None, nothing, (Recording("s", "s", 0.0, 3600.0, None),))
    words = list(zip(("go", "stop"), words_s, strict=True))
    said = tuple(SaidWord(word, f"{start}", "c", start, start + 0.1) for word, start in words)
    keywords = Stream("keywords", "k", math.inf, nothing, (Recording("k", "k", 0.0, 10.0, None),), said)
    heard = [Heard(stream, stream.recordings[0].end_s, torch.zeros(0, 2), None) for stream in (speech, keywords)]
    candidates = [judged(Detection("go", s, s + 0.1, 0.9, s + 0.2), 0, speech) for s in (1.0, 1.2)]  # one sound twice
    candidates += [judged(Detection(word, s, s + 0.1, 0.9, s + 0.2), 1, keywords) for word, s in words]
    counts = Counts(["go", "stop"], heard, candidates, 0.0)
    choice = choose(counts, {})
    assert choice.point.alarms.sum() == 2 and choice.point.found.sum() == 2
    tuned = with_refractory(Tuned(SpottingSettings(choice.thresholds), choice, counts), REFRACTORY_S)
    assert tuned.settings.refractory_s == expected
    assert tuned.choice.point.alarms.sum() == (1 if expected else 2) and tuned.choice.point.found.sum() == 2


def test_a_rate_that_no_threshold_reaches_names_the_nearest(measurement):
    with pytest.raises(
        InputError, match=r"no thresholds reach 1e-06 false alarms per hour of continuous speech: the nearest "
    ):
        tune(measurement, {"speech": 1e-6})


def test_speech_that_has_a_word_in_every_recording_is_refused(tmp_path):
    speech = write_speech(tmp_path / "speech", seconds=1)
    for file in speech.rglob("*.trans.txt"):
        file.write_text(file.read_text().replace("IT IS LATE", "GO LATE").replace("STOP", "GO"))
    plan = Plan(write_words(tmp_path / "words", count=2), speech, split="all", clips=4)
    heard = measure(spotter(), plan, with_others=False)
    with pytest.raises(InputError, match=r"every recording of .*speech that is heard has go: give speech without it"):
        tune(heard, {"speech": 1.0})


def test_a_model_that_finds_nothing_is_refused(tmp_path):
    deaf = spotter()
    with torch.no_grad():
        deaf.network.head.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 200.0]))
    plan = Plan(
        write_words(tmp_path / "words", count=2), write_speech(tmp_path / "speech", seconds=1), split="all", clips=4
    )
    with pytest.raises(InputError, match="the model finds none of the words"):
        tune(measure(deaf, plan, with_others=False), {"speech": 1.0})


def test_speech_and_sounds_count_and_other_words_if_asked_for(tmp_path):
    assert wanted_rates(Plan(tmp_path, tmp_path, tmp_path), 2.0, None) == {"speech": 2.0, "sounds": 2.0}
    assert wanted_rates(Plan(tmp_path), 2.0, 10.0) == {"others": 10.0}
    with pytest.raises(InputError, match="nothing to count false alarms in"):
        wanted_rates(Plan(tmp_path), 2.0, None)
    for rate in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="--alarms-per-hour"):
            wanted_rates(Plan(tmp_path, tmp_path), rate, None)


def test_settings_are_written_into_the_card(tmp_path):
    (tmp_path / "card.json").write_text('{"name": "tiny", "sha256": "a"}')
    for name in ("model.safetensors", "config.yaml"):
        (tmp_path / name).write_text("")
    check_card(tmp_path)
    settings = replace(SpottingSettings(), thresholds={"go": 0.5})
    assert save_settings(tmp_path, settings, {"wanted_alarms_per_hour": {"speech": 1.0}}) == tmp_path / "card.json"
    content = (tmp_path / "card.json").read_text()
    assert '"name": "tiny"' in content and '"go": 0.5' in content and '"wanted_alarms_per_hour"' in content


def test_after_training_the_card_gets_a_threshold_for_the_speech_of_validation(tmp_path, monkeypatch):
    monkeypatch.setattr("vitspeech.data.audio.continuous.split_of_speaker", lambda speaker: "validation")
    words, speech = write_words(tmp_path / "words", ("stop",), count=3), write_speech(tmp_path / "speech", seconds=2)
    model = tmp_path / "model"
    model.mkdir()
    for name, text in {"card.json": "{}", "model.safetensors": "", "config.yaml": ""}.items():
        (model / name).write_text(text)
    line, missing = settle(model, spotter(), words, [speech])
    card = read_json(model / "card.json")
    chosen = card["spotting"]["thresholds"]["stop"]
    measurement = measure(spotter(), Plan(words, speech, split="validation"), with_others=False)
    settings = replace(SpottingSettings(), **LASTING)
    counts = measurement.counts(settings)
    assert chosen == choose_after_training(counts, 0.5).thresholds["stop"]
    point = counts.at({"go": chosen, "stop": chosen})
    rates = counts.miss_rate(point, 0), counts.alarm_rate(point, 0)
    assert f"threshold {chosen:.2g} it misses {100 * rates[0]['rate']:.1f} % of 3 words" in line
    assert f"{rates[1]['alarms']} false alarms in {rates[1]['hours']:.2f} h" in line
    assert "no recordings of go" in missing
    assert "alarms" not in settle(model, spotter(), words, [])[0]
    items = word_recordings(words, ("go", "stop"))["validation"]
    for train, decoder in ((items, LASTING), ([], UNSURE)):  # people were recorded, none for validation; and nobody
        splits = {"train": train, "validation": []}
        monkeypatch.setattr("vitspeech.spotting.tune.word_recordings", lambda *_, splits=splits: splits)
        line, missing = settle(model, spotter(), words, [speech])
        spotting = read_json(model / "card.json")["spotting"]
        assert f"threshold {spotting['thresholds']['go']:.2g}, with " in line and "misses" not in line
        assert spotting["token_probability"] == decoder["token_probability"] and "no recordings of go, stop" in missing
    assert len(settle(model, spotter(), None, [])) == 1  # nothing to count in
    assert read_json(model / "card.json")["spotting"]["thresholds"] == 0.05  # nobody was recorded: it is never sure


def test_words_that_nobody_recorded_get_a_threshold_for_the_speech_of_validation(tmp_path, monkeypatch):
    monkeypatch.setattr("vitspeech.data.audio.continuous.split_of_speaker", lambda speaker: "validation")
    speech = write_speech(tmp_path / "speech", seconds=2)
    for name, text in {"card.json": "{}", "model.safetensors": "", "config.yaml": ""}.items():
        (tmp_path / name).write_text(text)
    chosen = {}
    for rate in (0.5, 1e6):
        monkeypatch.setattr("vitspeech.spotting.tune.RATE", rate)
        line, missing = settle(tmp_path, spotter(), None, [speech])
        chosen[rate] = read_json(tmp_path / "card.json")["spotting"]["thresholds"]["go"]
        assert f"threshold {chosen[rate]:.2g}, with " in line and "misses" not in line
        assert "no recordings of go, stop" in missing
    assert chosen[0.5] > chosen[1e6] == pytest.approx(sigmoid(-2.9))
