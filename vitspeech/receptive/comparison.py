"""Everything that is measured of models side by side, as data: what the report's pictures and tables are made from.

Shapes: B inputs, F log-mel frames, M mel bins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vitspeech.receptive.examples import Example, examples_of
from vitspeech.receptive.fields.default_layers import infer_layer
from vitspeech.receptive.fields.layer_numbers import LayerNumbers, layer_numbers
from vitspeech.receptive.heads.measures import HeadMeasures, class_tokens_of, head_measures
from vitspeech.receptive.initialization import switch_on_branches
from vitspeech.receptive.occlusion.accuracy import VisibleAccuracy, visible_accuracy
from vitspeech.receptive.sample import Sample
from vitspeech.receptive.subjects import Subject

HEADS_INPUTS = 64
EXAMPLES = 4
RADII = [share / 16 for share in range(1, 8)]  # of a picture's side; nothing and everything are measured, too
RADII_MS = (20, 40, 60, 80, 120, 160, 200, 250, 300, 400)


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        inputs: Of fields.
        answers: Of the accuracy against what is visible.
        factors: The sizes of inputs, in sizes that a model was made for; the report is about the first.
        layers: Names of the layers to measure; `None` is those of `default_layers`.

    Raises:
        ValueError: If there are fewer than two inputs, or a factor is not above 0.
    """

    inputs: int = 32
    answers: int = 500
    factors: tuple[float, ...] = (1.0, 1.5)
    layers: Sequence[str] | None = None

    def __post_init__(self) -> None:
        fewest = min(self.inputs, self.answers)
        if fewest < 2:
            raise ValueError(f"{fewest} input: an estimate with an interval needs at least 2")
        if not self.factors or min(self.factors) <= 0:
            raise ValueError(f"factors={self.factors} are not sizes above 0")


@dataclass(frozen=True)
class State:
    """A model at one size of input, with its weights or as it was before training.

    Args:
        trained: Whether it has its weights.
        size: Side of the pictures in px, or seconds of the clips.
        layers: In the order in which they run.
        zero_init: Which residual branches were switched on before the measurement, see `switch_on_branches`; `None` if
            the network is measured as it was initialized, or trained.
        as_initialized: The last layer measured without that; `None` likewise.
    """

    trained: bool
    size: float
    layers: list[LayerNumbers]
    zero_init: str | None = None
    as_initialized: LayerNumbers | None = None


@dataclass
class Result:
    """What was measured of one model, and what could not be and why.

    Args:
        subject: Which model.
        parameters: How many numbers it has.
        states: First the one that the report is about: trained if there are weights, at the first size.
        heads: Of attention, for that state; distances in px or ms.
        visible: Accuracy against the radius of what is visible, in px or log-mel frames.
        examples: The first inputs, as that state sees them.
        missing: What is not there, and the reason.
    """

    subject: Subject
    parameters: int
    states: list[State] = field(default_factory=list)
    heads: HeadMeasures | None = None
    visible: VisibleAccuracy | None = None
    examples: list[Example] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> State:
        """The state that the report is about."""
        return self.states[0]

    @property
    def untrained(self) -> State | None:
        """The same before training, if it was measured."""
        found = (state for state in self.states if not state.trained and state.size == self.main.size)
        return next(found, None)

    @property
    def larger(self) -> State | None:
        """The same at the second size, if it was measured."""
        found = (s for s in self.states if s.trained == self.main.trained and s.size != self.main.size)
        return next(found, None)


def compare(subjects: Sequence[Subject], sample: Sample, plan: Plan, *, progress: bool = False) -> list[Result]:
    """Measure every model on the same inputs.

    What a model can't give is left out and named in its `missing`; the rest is measured all the same.

    Args:
        subjects: With different names.
        sample: From `sample_for`.
        plan: How much.
        progress: Show a bar.

    Raises:
        ValueError: If two models have one name, a model can't take its own size, or a layer named is not there.
    """
    names = [subject.name for subject in subjects]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is named twice")
    parts = sum(len(states_of(subject, plan)) + 2 for subject in subjects)
    with tqdm(total=parts, disable=not progress, leave=False) as bar:

        def begin(what: str) -> None:
            bar.set_description(what)
            bar.refresh()

        return [measured(subject, sample, plan, begin, bar.update) for subject in subjects]


def states_of(subject: Subject, plan: Plan) -> list[tuple[bool, float]]:
    """Trained or not and at which factor of its size, the first of `Result.states` first."""
    if not subject.trained:
        return [(False, factor) for factor in plan.factors]
    return [*((True, factor) for factor in plan.factors), (False, plan.factors[0])]


def measured(
    subject: Subject, sample: Sample, plan: Plan, begin: Callable[[str], None], done: Callable[[], object]
) -> Result:
    """One model in all its states; `begin` is told what comes, `done` that it is over."""
    few = sample.first(plan.inputs).raw
    result = Result(subject, 0)
    for trained, factor in states_of(subject, plan):
        size = factor * subject.size if subject.hears else round(factor * subject.size)
        what = f"{subject.described(size)}, {'trained' if trained else 'untrained'}"
        begin(f"{subject.name}: {what}")
        try:
            state = state_of(subject, few, plan.layers, trained=trained, size=size, briefly=bool(result.states))
            result.states.append(state)
        except (ValueError, AssertionError, RuntimeError) as error:  # how timm's networks refuse a size when they run
            if not result.states:
                raise
            result.missing[what] = str(error)
        done()
    if not subject.trained:
        result.missing["weights"] = "its weights are not here: what is shown is the network before training"

    network, _ = network_of(subject, subject.inputs(few, result.main.size), result.main.size, trained=subject.trained)
    result.parameters = sum(parameter.numel() for parameter in network.parameters())
    begin(f"{subject.name}: attention")
    try:
        inputs = subject.inputs(sample.first(HEADS_INPUTS).raw, result.main.size)
        result.heads = heads_of(network, inputs, result.main, hears=subject.hears)
    except ValueError as error:
        result.missing["attention"] = str(error)
    layer = result.main.layers[-1].fields.layer
    shown = subject.inputs(sample.first(EXAMPLES).raw, result.main.size)
    try:
        result.examples = examples_of(subject, network, shown, layer, attention=result.heads is not None)
    except ValueError as error:
        result.missing["rollout and relevance"] = str(error)
        result.examples = examples_of(subject, network, shown, layer, attention=False)
    done()
    begin(f"{subject.name}: accuracy against what is visible")
    if subject.gives_labels and subject.trained:
        result.visible = visible(subject, network, sample.first(plan.answers), result.main.size)
    else:
        reason = f"{type(network).__name__} gives no single label" if subject.trained else "it is not trained"
        result.missing["accuracy against what is visible"] = reason
    done()
    return result


def state_of(
    subject: Subject, raw: Tensor, names: Sequence[str] | None, *, trained: bool, size: float, briefly: bool
) -> State:
    """One model in one state; `briefly` leaves out its blocks and its fields without skips."""
    inputs = subject.inputs(raw, size)
    network, zero_init = network_of(subject, inputs, size, trained=trained)
    if names is None:
        layers = subject.layers(network, inputs)
    else:
        layers = [infer_layer(network, name, inputs, in_time=subject.hears) for name in names]
    numbers = layer_numbers(network, inputs, layers, subject.source, cumulative_only=briefly)
    if zero_init is None:
        return State(trained, size, numbers)
    network = subject.network(trained=False, size=size, sample=inputs)
    (last,) = layer_numbers(network, inputs, layers[-1:], subject.source, cumulative_only=True)
    return State(trained, size, numbers, zero_init, last)


def network_of(subject: Subject, inputs: Tensor, size: float, *, trained: bool) -> tuple[nn.Module, str | None]:
    """The network in one state, and which residual branches were switched on in it; those of trained ones never are."""
    network = subject.network(trained=trained, size=size, sample=inputs)
    return network, None if trained else switch_on_branches(network, inputs, subject.source)


def heads_of(network: nn.Module, inputs: Tensor, state: State, *, hears: bool) -> HeadMeasures:
    """Attention's own measures; its tokens lie where the units of the last layer do.

    Raises:
        ValueError: If there is no attention, none that can be written out, or its tokens are not the layer's units.
    """
    last = state.layers[-1]
    rows, columns = last.fields.grid
    places = torch.cartesian_prod(torch.arange(rows) * last.stride, torch.arange(columns) * last.stride)
    return head_measures(network, inputs, places[:, :1] if hears else places, class_tokens=class_tokens_of(network))


def visible(subject: Subject, network: nn.Module, sample: Sample, size: float) -> VisibleAccuracy:
    """Accuracy against what is visible: around the middle of a picture, or around the middle of a word.

    Models whose labels are not those of the sample are compared with their own answers to the whole inputs.
    """
    labels = sample.labels if subject.labels is not None and subject.labels == sample.names else None
    inputs = subject.inputs(sample.raw, size)
    if not subject.hears:
        # Between the distances from the middle of an even side, which are n + 1/2.
        radii = (torch.tensor(RADII) * inputs.shape[-1]).round().unique() - 0.5
        return visible_accuracy(network, inputs, labels, radii.tolist())
    log_mel = network.tokens.log_mel
    with torch.no_grad():
        frames = log_mel(inputs)[:, None]
    centers = ((sample.middles - log_mel.window_samples / 2) / log_mel.hop_samples).clamp(0, frames.shape[2] - 1)
    radii = [radius / log_mel.hop_ms for radius in RADII_MS]
    answer = partial(of_frames, network)
    return visible_accuracy(answer, frames, labels, radii, centers=centers, axes=(2,))


def of_frames(network: nn.Module, frames: Tensor) -> Tensor:
    """What a network of speech answers to log-mel frames: (B, 1, F, M) -> (B, classes)."""
    handle = network.tokens.log_mel.register_forward_hook(lambda *_: frames[:, 0])
    try:
        return network(frames.new_zeros(len(frames), network.tokens.window_samples))
    finally:
        handle.remove()
