"""What the page says: the main numbers as sentences and tables, the protocol, and figures of others."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vitspeech.decoding.spotting_settings import SpottingSettings
from vitspeech.spotting.listening import NEIGHBOR_S, TOLERANCE_S, level_name
from vitspeech.spotting.measure import bound
from vitspeech.spotting.streams import KEYWORDS, OTHERS, PAUSE_S, SOUNDS, SPEECH

Table = dict[str, Any]
NAMES = {SPEECH: "continuous speech", OTHERS: "other words", SOUNDS: "sounds"}
ELSEWHERE = (
    "openWakeWord aims at fewer than 0.5 false alarms an hour at fewer than 5 % misses. One phrase per model; misses "
    "of phrases in noise at 5 to 10 dB with reverberation; alarms in the Dinner Party Corpus (DiPCo: talk at dinner, "
    "music, far field, 5.5 hours).",
    "icefall, open-vocabulary spotting of 20 commands, mostly of two words: 86 % found at 0.025 alarms an hour, after "
    "fine-tuning 98.7 % at 0.6. 307 recordings of the commands; alarms in the test set of GigaSpeech (40 hours).",
    "Picovoice Porcupine: 91 % found at 0.1 alarms an hour, by its maker. Six phrases of more than 50 speakers in "
    "noise of DEMAND at 10 dB; alarms in LibriSpeech test-clean.",
)


def number(value: float | None) -> str:
    """A rate with two digits, more if it is large."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def rate_text(alarms: Mapping[str, Any]) -> str:
    """A rate of alarms with its interval, or the bound if there was none."""
    if alarms["per_hour"] is None:
        return "not measured"
    if not alarms["alarms"]:
        return f"none; below {number(alarms['high'])}"
    return f"{number(alarms['per_hour'])} ({number(alarms['low'])}–{number(alarms['high'])})"


def percent(miss: Mapping[str, Any]) -> str:
    """A share of misses with its interval."""
    if miss["rate"] is None:
        return "–"
    interval = miss.get("interval_95")
    return f"{100 * miss['rate']:.1f} %" + (f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval else "")


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """The main numbers at the model's own thresholds."""
    point, lines = summary["operating_point"], []
    for condition, alarms in point["all"]["alarms"].items():
        there = summary["conditions"][condition]
        text = f"False alarms an hour of {NAMES[condition]}: {rate_text(alarms)}"
        text += f"; {alarms['alarms']} in {there['hours']:.2f} h"
        if condition == OTHERS:
            text += f", {1000 * alarms['alarms'] / there['words']:.1f} per 1,000 of {there['words']:,} words"
        hours = there.get("hours_by_word", {"": there["hours"]})
        if never_free := [word for word, value in hours.items() if word and not value]:
            lines.append(f"{text}; every recording has {', '.join(never_free)}, whose false alarms can't be counted.")
            continue
        fewest = f"{min(hours.values()):.2f} h" + (", the fewest of a word," if condition == SPEECH else "")
        limit = number(there["no_alarm_bounds_rate_below"])
        lines.append(f"{text}. No alarm in {fewest} would bound the rate below {limit}.")
    if (other := summary["other_words"]) and other["by_card"]:
        lines.append(other_words_text(other["by_card"]))
    for level, miss in point["all"]["misses"].items():
        lines.append(f"Words missed ({level_name(level)}): {percent(miss)} of {miss['words']:,}.")
    if inside := point["inside_sentences"]:
        lines.append(f"Words inside sentences: at most {reported_text(inside['all'])} reported.")
    if point["delay_s"]:
        middle, high = (1000 * point["delay_s"][name] for name in ("median", "90_percent_below"))
        lines.append(f"A word is reported {middle:.0f} ms after its end (median; 90 % within {high:.0f} ms).")
    extra, hours = point["extra_detections"], summary["conditions"][KEYWORDS]["hours"]
    lines.append(
        f"Beyond the first detection of each keyword: {extra['repeated']} repeated, {extra['another_word']} of another "
        f"word on a keyword, {extra['beside']} beside all keywords, in {hours:.2f} h with keywords."
    )
    return [*lines, *summary["notes"]]


def other_words_text(by_card: Mapping[str, Any]) -> str:
    """The alarms in other words of which training had recordings, and in those of which it had none."""
    parts = []
    for name, kind in (("with recordings in training", "heard"), ("without recordings in training", "unheard")):
        words, alarms = (by_card[kind][key] for key in ("words", "alarms"))
        if words:
            parts.append(f"{name}: {alarms} alarms in {words:,} words ({1000 * alarms / words:.1f} per 1,000)")
    return f"Other words {'; '.join(parts)}."


def main_table(summary: Mapping[str, Any]) -> Table:
    """The fewest misses at some rates of alarms."""
    rows, rates = [], []
    for condition, levels in summary["reached"].items():
        for level, values in levels.items():
            misses = values["misses_at_alarms_per_hour"]
            rates = list(misses)
            cells = ["–" if miss is None else f"{100 * miss:.1f} %" for miss in misses.values()]
            rows.append([f"{NAMES[condition]}; {level}", *cells])
    return {
        "title": "Misses at a rate of false alarms",
        "text": "The fewest misses at up to so many false alarms an hour, when all thresholds are shifted alike. At "
        "rates below one alarm in all hours heard, it is what is missed without any alarm.",
        "columns": ["alarms in; keywords with noise", *(f"{rate} an hour" for rate in rates)],
        "rows": rows,
    }


def word_table(summary: Mapping[str, Any]) -> Table:
    """Every word at the model's own thresholds."""
    point = summary["operating_point"]
    conditions, levels = point["all"]["alarms"], point["all"]["misses"]
    inside = point["inside_sentences"]
    rows = []
    for word, values in [*point["words"].items(), (None, point["all"])]:
        row = ["all", ""] if word is None else [word, f"{point['thresholds'][word]:.4g}"]
        row += [rate_text(values["alarms"][name]) for name in conditions]
        row += [percent(values["misses"][name]) for name in levels]
        if inside:
            row.append(reported_text(inside["all"] if word is None else inside["words"][word]))
        rows.append(row)
    return {
        "title": "Every word at the model's thresholds",
        "text": "False alarms an hour and misses, with 95 % intervals: Poisson (Garwood 1936) for alarms, bootstrap "
        "over speakers for misses (Wilson 1927 if none or all are missed)."
        + (" The last column says how many words inside sentences are reported, at most." if inside else ""),
        "columns": [
            "word",
            "threshold",
            *(f"alarms/h, {NAMES[name]}" for name in conditions),
            *(f"missed, {name}" for name in levels),
            *(["in sentences"] if inside else []),
        ],
        "rows": rows,
    }


def reported_text(inside: Mapping[str, Any]) -> str:
    """How many of the words inside sentences are reported."""
    return f"{inside['reported']:,} of {inside['said']:,}" if inside["said"] else "–"


def protocol(summary: Mapping[str, Any]) -> list[str]:
    """How the numbers were measured."""
    plan, heard = summary["plan"], summary["conditions"]
    settings = ", ".join(f"{name} {value}" for name, value in summary["settings"].items())
    lines = [
        f"Split: {plan['split']}; seed: {plan['seed']}; settings of the decoder: {settings}.",
        f"Keywords: {amount(heard[KEYWORDS])}. Words of one speaker, cut by their energy, at one level, follow each "
        f"other with pauses of {PAUSE_S[0]:g} to {PAUSE_S[1]:g} s, without noise and with background noise. A word is "
        f"found if a detection of it overlaps the word, lengthened by {TOLERANCE_S:g} s on either side.",
    ]
    if SPEECH in heard:
        there = heard[SPEECH]
        lines.append(
            f"Continuous speech: {there['recordings']:,} recordings, {there['transcribed']:,} of them with "
            f"transcripts, {there['speakers']} speakers, {there['hours']:.2f} h. The recordings of a speaker in a "
            "folder follow each other. A detection does not count if the transcript of the recording, or of one within "
            f"{NEIGHBOR_S:g} s, has the word, and recordings with the word don't count in its hours. The rate of all "
            "words is the sum of the words' rates."
        )
    if OTHERS in heard:
        lines.append(
            f"Other words: {amount(heard[OTHERS])}, one after another as the keywords, without noise. Every "
            "detection is a false alarm."
        )
    if SOUNDS in heard:
        lines.append(
            f"Sounds: {heard[SOUNDS]['streams']:,} recordings, {heard[SOUNDS]['hours']:.2f} h, each from its "
            "beginning. Every detection is a false alarm."
        )
    return lines


def amount(there: Mapping[str, Any]) -> str:
    """How much was heard in a condition of composed words."""
    return f"{there['words']:,} words, {there['speakers']:,} speakers, {there['hours']:.2f} h"


def alt_text(summary: Mapping[str, Any]) -> str:
    """The curve in words."""
    parts = []
    for condition, levels in summary["reached"].items():
        level, values = next(iter(levels.items()))
        miss = values["misses_at_alarms_per_hour"]["10"]
        text = "not reached" if miss is None else f"{100 * miss:.0f} % misses"
        parts.append(f"{NAMES[condition]}, {level}: {text} at 10 false alarms an hour")
    return "Curves of misses against false alarms an hour. " + "; ".join(parts) + "."


def chosen(settings: SpottingSettings, record: Mapping[str, Any], never_found: Sequence[str]) -> list[str]:
    """What was chosen, and how far the estimate can be trusted."""
    thresholds = ", ".join(f"{word} {value:.4g}" for word, value in settings.thresholds.items())
    others = ", ".join(f"{name} {value}" for name, value in asdict(settings).items() if name != "thresholds")
    lines = [f"Thresholds: {thresholds}.", f"Settings: {others}."]
    if never_found:
        lines.append(f"Never found at these thresholds: {', '.join(never_found)}.")
    for name, alarms in record["counted"].items():
        wanted, expected = record["wanted_alarms_per_hour"][name], record["expected_alarms_per_hour"][name]
        lines.append(
            f"{NAMES[name].capitalize()}: {wanted:g} an hour wanted, {number(expected)} expected; counted "
            f"{alarms['alarms']} in {alarms['hours']:.2f} h: {rate_text(alarms)}."
        )
        if wanted < bound(alarms["hours"]):
            lines.append(
                f"So few hours can't show a rate of {wanted:g}: without any alarm they bound it below "
                f"{number(bound(alarms['hours']))}. The expected rate extrapolates from alarms of lower probability; "
                "measure it with more speech."
            )
    return lines
