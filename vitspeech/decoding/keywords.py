"""Decoding of keywords: from the logits of a stream of tokens to detections of words, with their times.

Everything is stated here, so that a decoder in another language can be tested against this one. With the tokens i = 0,
1, ..., their logits x_i, and times in tokens, rounded:

1. The posteriors softmax(x_i) are averaged over the last `smoothing_s`, or as many tokens as there are (posterior
   smoothing; Chen et al. 2014, doi:10.1109/ICASSP.2014.6854370, eq. 2).
2. A token belongs to the class of the highest smoothed posterior, if that is at least `token_probability`. `unknown`
   and `silence` are not words.
3. A run of a word ends once `pause_s` has passed without a token of the word. Runs of different words may overlap.
4. A run becomes a candidate, once, if it lasts `shortest_s`: when it ends, when it is as long as a clip, or when
   the recording ends.
5. The probability of a candidate is that of its word in a clip, as in training: the softmax of the clip's mean logits.
   Of the clips that end between the last token of the run and the newest token, the most probable one counts. A clip
   has the length of the training clips, or of the recording so far.
6. Tokens from the first to the last of a candidate whose probability is at least `used_probability` are used: they
   don't count in the means of later candidates. A mean of few tokens is lowered: it divides by at least
   `least_fraction` of a clip.
7. A candidate is detected if its probability is at least the threshold of its word, and its end is `refractory_s` after
   that of the detection before, of whichever word.

Only step 7 depends on the thresholds and the refractory period: see `select`.

This file needs numpy alone: `vitspeech export` copies it into the folders that it writes.

Shapes: T tokens, C classes.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy

NO_WORDS = ("unknown", "silence")  # labels that are never detected
NO_WORD = -1
LONGEST_S = 60  # of a duration in the settings


@dataclass(frozen=True)
class SpottingSettings:
    """Every number of a `KeywordDecoder`, which a model's card may hold. Durations are rounded to tokens.

    Args:
        thresholds: Minimum probability of a detection, 0 .. 1: of every word, or a mapping with that of each.
        refractory_s: Minimum time in seconds between the ends of two detections, of whichever words; 0 keeps all.
        smoothing_s: Duration over which the posteriors of tokens are averaged; at least one token.
        token_probability: Minimum smoothed posterior for a token to belong to a word.
        pause_s: A word ends after this many seconds without a token of it; at least one token.
        shortest_s: Minimum duration of a word, rounded up.
        used_probability: Probability from which the tokens of a candidate don't count for later ones.
        least_fraction: A sum of logits is divided by at least this fraction of a clip's tokens, above 0.

    Raises:
        ValueError: If a number is out of its range; the message names it. Durations are at most 60 s.
    """

    thresholds: Mapping[str, float] | float = 0.8
    refractory_s: float = 0.0
    smoothing_s: float = 0.12
    token_probability: float = 0.6
    pause_s: float = 0.08
    shortest_s: float = 0.15
    used_probability: float = 0.8
    least_fraction: float = 0.7

    def __post_init__(self) -> None:
        numbers = dict(vars(self))
        thresholds = numbers.pop("thresholds")
        if isinstance(thresholds, Mapping):
            numbers |= {f"threshold of {word!r:.60}": value for word, value in thresholds.items()}
        else:
            numbers["threshold"] = thresholds
        for name, value in numbers.items():
            low, high = 1e-6 if name == "least_fraction" else 0, LONGEST_S if name.endswith("_s") else 1
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ValueError(f"{name}={value!r:.60} is not within {low:g} .. {high:g}")

    def threshold(self, word: str) -> float:
        """The threshold of a word."""
        return self.thresholds[word] if isinstance(self.thresholds, Mapping) else self.thresholds


@dataclass(frozen=True)
class Detection:
    """A word detected in a stream. Times are in seconds from the beginning of the recording.

    Args:
        label: The word.
        start_s: Start of the word: that of its first token. A token lasts one hop, around the center of its samples.
        end_s: End of the word: that of its last token.
        probability: Probability of the word in a clip that ends with it or soon after.
        decided_s: Time of the last audio that the detection depends on: it cannot be reported earlier.
    """

    label: str
    start_s: float
    end_s: float
    probability: float
    decided_s: float


@dataclass
class Run:
    """Tokens of one word, with pauses below `pause_s`.

    Args:
        first: The first token.
        last: The last token so far.
        probability: That of the candidate, once the run is one.
    """

    first: int
    last: int
    probability: float | None = None


class KeywordDecoder:
    """Detects each word of a stream once, also if the same word follows; the module's docstring states how.

    Detections come in the order in which they are decided. They do not depend on how the logits are split into pushes.

    Args:
        labels: The name of each class. `unknown` and `silence` are not words.
        settings: Thresholds and all other numbers.
        hop_s: Seconds from one token to the next.
        first_s: Start of the first token's hop, in seconds from the beginning of the recording.
        latency_s: Seconds from the first sample of a token to the last one that its logits depend on.
        clip_tokens: Number of tokens of a training clip.

    Attributes:
        latency_tokens: Tokens from the one with which a word ends to the one with which it is detected.

    Raises:
        ValueError: If the thresholds are of other words than the labels.
    """

    def __init__(
        self,
        labels: Iterable[str],
        settings: SpottingSettings,
        *,
        hop_s: float,
        first_s: float,
        latency_s: float,
        clip_tokens: int,
    ) -> None:
        self.labels, self.settings = list(labels), settings
        self.hop_s, self.first_s, self.latency_s, self.clip = hop_s, first_s, latency_s, clip_tokens
        self.is_word = numpy.array([label not in NO_WORDS for label in self.labels], dtype=bool)
        check_words(settings.thresholds, self.labels)
        self.smoothing = max(round(settings.smoothing_s / hop_s), 1)
        self.pause = max(round(settings.pause_s / hop_s), 1)
        self.shortest = math.ceil(settings.shortest_s / hop_s - 1e-6)
        self.latency_tokens = self.pause + math.ceil((self.smoothing - 1) / 2)
        self.restart()

    def restart(self) -> None:
        """Begin a new recording."""
        self.count = 0  # tokens so far
        self.posteriors = numpy.zeros((self.smoothing - 1, len(self.labels)))  # of the newest tokens
        self.logits = numpy.zeros((0, len(self.labels)))  # of the newest tokens, which decisions may still need
        self.is_free = numpy.zeros(0, dtype=bool)  # whether the same tokens are unused
        self.runs: dict[int, Run] = {}  # that have not ended, by word
        self.last_end_s = -math.inf

    def push(self, logits: numpy.ndarray) -> list[Detection]:
        """Process the next logits: (T, C) -> the new detections. A tensor on the CPU is accepted as well."""
        logits = numpy.asarray(logits, dtype=float)
        words = self.words_of(logits)
        kept = self.clip + self.pause
        self.logits = numpy.concatenate((self.logits[-kept:], logits))
        self.is_free = numpy.concatenate((self.is_free[-kept:], numpy.ones(len(logits), dtype=bool)))
        self.oldest = self.count + len(logits) - len(self.logits)  # the token of the first row
        candidates = []
        for word in words.tolist():
            self.count += 1
            if word != NO_WORD or self.runs:
                candidates += self.advance(word)
        return self.selected(candidates)

    def flush(self) -> list[Detection]:
        """End the recording: the detections of words that have not ended. The decoder can then be used for another."""
        ending = sorted(self.runs.items(), key=lambda item: item[1].last)
        detections = self.selected([found for word, run in ending for found in self.decide(word, run)])
        self.restart()
        return detections

    def state(self) -> dict[str, numpy.ndarray]:
        """What later detections depend on, as arrays: `restore` goes on from there."""
        runs = [[word, run.first, run.last, run.probability] for word, run in self.runs.items()]
        kept = min(self.count, self.clip + self.pause)
        newest = {"logits": self.logits[len(self.logits) - kept :], "is_free": self.is_free[len(self.is_free) - kept :]}
        others = {name: numpy.array(getattr(self, name)) for name in ("count", "posteriors", "last_end_s")}
        # None, of a run that is no candidate, becomes NaN.
        return others | newest | {"runs": numpy.array(runs, dtype=float).reshape(-1, 4)}

    def restore(self, state: Mapping[str, numpy.ndarray]) -> None:
        """Go on from what `state` returned; a KeyError, TypeError or ValueError tells that it is something else."""
        posteriors, logits, is_free, runs = (state[name] for name in ("posteriors", "logits", "is_free", "runs"))
        count, last_end_s, kept = int(state["count"]), float(state["last_end_s"]), len(logits)
        words, first, last, probabilities = runs.T
        shapes = [posteriors.shape, kept, logits.shape, is_free.shape]
        conditions = (
            shapes == [self.posteriors.shape, min(count, self.clip + self.pause), (kept, len(self.labels)), (kept,)],
            (posteriors.dtype, logits.dtype, is_free.dtype) == (float, float, bool),
            ((posteriors >= 0) & (posteriors <= 1.001)).all() and numpy.isfinite(logits).all(),
            numpy.isin(words, numpy.flatnonzero(self.is_word)).all() and len(set(words.tolist())) == len(words),
            ((first >= 0) & (first <= last) & (last < count)).all(),
            (numpy.isnan(probabilities) | ((probabilities >= 0) & (probabilities <= 1))).all(),
            last_end_s <= self.first_s + count * self.hop_s + 1e-6,
        )
        if not all(conditions):
            raise ValueError("not a state of this decoder")
        self.posteriors, self.logits, self.is_free = posteriors, logits, is_free
        self.count, self.last_end_s = count, last_end_s
        self.oldest = count - kept
        self.runs = {
            int(word): Run(int(first), int(last), None if math.isnan(probability) else probability)
            for word, first, last, probability in runs.tolist()
        }

    def selected(self, candidates: list[Detection]) -> list[Detection]:
        """The detections among the newest candidates."""
        detections = select(candidates, self.settings, self.last_end_s)
        self.last_end_s = detections[-1].end_s if detections else self.last_end_s
        return detections

    def words_of(self, logits: numpy.ndarray) -> numpy.ndarray:
        """The word to which each new token belongs, or `NO_WORD`: (T, C) -> (T,)."""
        count, before = len(logits), len(self.posteriors)
        rows = numpy.concatenate((self.posteriors, softmax(logits)))
        self.posteriors = rows[count:]
        total = numpy.zeros_like(logits)
        for shift in range(before + 1):
            total = total + rows[shift : shift + count]
        smoothed = total / numpy.minimum(self.count + 1 + numpy.arange(count), self.smoothing)[:, None]
        best = smoothed.argmax(1)
        belongs = self.is_word[best] & (smoothed.max(1, initial=0) >= self.settings.token_probability)
        return numpy.where(belongs, best, NO_WORD)

    def advance(self, word: int) -> list[Detection]:
        """Add the newest token to the run of its word: the candidates of runs that end or are as long as a clip."""
        newest = self.count - 1
        if word != NO_WORD:
            self.runs.setdefault(word, Run(newest, newest)).last = newest
        candidates = []
        for other, run in list(self.runs.items()):
            has_ended = newest - run.last >= self.pause
            if has_ended or newest - run.first + 1 >= self.clip:
                candidates += self.decide(other, run)
            if has_ended:
                del self.runs[other]
        return candidates

    def decide(self, word: int, run: Run) -> list[Detection]:
        """The candidate of a run, unless it is too short or has been one; its tokens are used if it is probable."""
        if run.last + 1 - run.first < self.shortest:
            return []
        is_new = run.probability is None
        run.probability = self.probability(word, run) if is_new else run.probability
        if run.probability >= self.settings.used_probability:
            self.is_free[max(run.first - self.oldest, 0) : run.last + 1 - self.oldest] = False
        if not is_new:
            return []
        start_s, end_s = self.center_s(run.first), self.center_s(run.last) + self.hop_s
        decided_s = (self.count - 1) * self.hop_s + self.latency_s
        return [Detection(self.labels[word], start_s, end_s, run.probability, decided_s)]

    def center_s(self, token: int) -> float:
        """The start of the hop in the middle of the tokens over which a token's posterior is averaged."""
        return self.first_s + (max(token - self.smoothing + 1, 0) + token) / 2 * self.hop_s

    def probability(self, word: int, run: Run) -> float:
        """The highest probability of a run's word in clips that end with the run or later."""
        size, newest = min(self.clip, self.count), self.count - 1
        return max(self.mean(end - size + 1, end + 1)[word] for end in range(max(run.last, size - 1), newest + 1))

    def mean(self, first: int, after: int) -> list[float]:
        """The probabilities of a clip from its unused tokens: first token, the one after the last -> C numbers."""
        rows = slice(first - self.oldest, after - self.oldest)
        is_free = self.is_free[rows]
        total = (self.logits[rows] * is_free[:, None]).sum(0)
        return softmax(total / max(is_free.sum(), self.settings.least_fraction * self.clip)).tolist()


def select(
    candidates: Iterable[Detection], settings: SpottingSettings, last_end_s: float = -math.inf
) -> list[Detection]:
    """Apply the thresholds and the refractory period to candidates of one recording, in the order of a decoder.

    The candidates are what a `KeywordDecoder` with thresholds and refractory period of 0 detects. The result is exactly
    what a decoder with these settings detects, if all other settings are the same. So misses and false alarms at all
    thresholds follow from one pass over the audio.
    """
    detections = []
    for candidate in candidates:
        is_late = max(candidate.end_s - last_end_s, 0) >= settings.refractory_s
        if candidate.probability >= settings.threshold(candidate.label) and is_late:
            detections.append(candidate)
            last_end_s = candidate.end_s
    return detections


def check_words(thresholds: Mapping[str, float] | float, labels: Iterable[str]) -> None:
    """Raise a ValueError unless the thresholds are those of the words among the labels, or one for all."""
    words = {label for label in labels if label not in NO_WORDS}
    if isinstance(thresholds, Mapping) and (wrong := thresholds.keys() ^ words):
        what = "none for" if (word := min(wrong & words or wrong)) in words else "the model does not have"
        raise ValueError(f"thresholds: {what} the word {word!r:.60}")


def softmax(logits: numpy.ndarray) -> numpy.ndarray:
    """The softmax over the last axis."""
    powers = numpy.exp(logits - logits.max(-1, keepdims=True, initial=-numpy.inf))
    return powers / powers.sum(-1, keepdims=True)
