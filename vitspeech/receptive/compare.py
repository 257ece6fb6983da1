"""Measures models on the same inputs; the results are the data for the report's figures and tables.

Shapes: B inputs, F log-mel frames, M mel bins; K example inputs, R rows, W columns of the source, T tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from vitspeech.errors import InputError
from vitspeech.metrics.intervals import Estimate, Numbers
from vitspeech.receptive.fields.effective import effective_fields
from vitspeech.receptive.fields.layer_numbers import LayerNumbers, layer_numbers
from vitspeech.receptive.fields.layers import Layer, find_module
from vitspeech.receptive.heads.measures import HeadMeasures, class_tokens_of, head_measures
from vitspeech.receptive.heads.relevance import at_head, rollout, token_relevance
from vitspeech.receptive.heads.weights import attention_weights
from vitspeech.receptive.initialization import switch_on_branches
from vitspeech.receptive.occlusion import VisibleAccuracy, visible_accuracy
from vitspeech.receptive.plan import Cost, Plan, estimate_cost
from vitspeech.receptive.sample import Sample
from vitspeech.receptive.subjects import Subject

HEADS_INPUTS = 64
EXAMPLES = 4
RADII = [number / 16 for number in range(1, 8)]  # relative to an image's side; 0 and the whole image are added
RADII_MS = (20, 40, 60, 80, 120, 160, 200, 250, 300, 400)
VISIBLE_VALUES = 2**22  # of all inputs in a pass
BAR = "{desc}{percentage:.0f} %, {remaining} left"


@dataclass(frozen=True)
class State:
    """The measurements of a model at one input size, trained or untrained."""

    trained: bool  # whether it has trained weights
    size: float  # side of the images in px, or length of the clips in seconds
    layers: list[LayerNumbers]  # in the order in which they run
    # a note on residual branches that start multiplied by zero and were switched on for the measurement, see
    # `switch_on_branches`; `None` for trained networks and for those without such branches
    zero_init: str | None = None
    # the last layer measured with these branches at zero; `None` if `zero_init` is `None`
    as_initialized: LayerNumbers | None = None


@dataclass(frozen=True)
class Example:
    """Maps of one kind for some inputs."""

    # `field`, the square root of the effective receptive field of the central unit of the last layer; `rollout`,
    # attention rollout; or `relevance`, of the predicted label
    what: str
    # relative to the largest value of each map, (K, R, W). `rollout` and `relevance` of audio have one column
    maps: Tensor
    labels: list[str] | None  # the predicted label of each input; `None` if the model predicts none


@dataclass
class Result:
    """The measurements of one model, and the reasons for missing ones."""

    subject: Subject  # the model
    parameters: int  # its number of parameters
    # the first is the one that the report is about: at the first size, trained if there are weights
    states: list[State] = field(default_factory=list)
    heads: HeadMeasures | None = None  # measures of its attention heads in that state; distances in px or ms
    # accuracy against the radius of the visible window, in px or log-mel frames; agreement with the model's own
    # predictions if its labels are not those of the inputs
    visible: VisibleAccuracy | None = None
    examples: list[Example] = field(default_factory=list)  # maps of the first inputs, in that state
    missing: dict[str, str] = field(default_factory=dict)  # the reason for each missing measurement

    @property
    def radii(self) -> list[float]:
        """The radii of the visible windows in px or ms."""
        return [radius * self.main.layers[0].cell for radius in self.visible.radii]

    @property
    def keeps(self) -> Numbers:
        """The radius in px or ms that keeps 90 % of the accuracy, or of the agreement, for each replacement."""
        cell = self.main.layers[0].cell
        return {name: Estimate(*(cell * end for end in radius)) for name, radius in self.visible.keeps().items()}

    @property
    def main(self) -> State:
        """The state that the report is about."""
        return self.states[0]

    @property
    def untrained(self) -> State | None:
        """The untrained state at the same size, if measured."""
        states = (state for state in self.states if not state.trained and state.size == self.main.size)
        return next(states, None)

    @property
    def larger(self) -> State | None:
        """The same network at the second size, if measured."""
        states = (s for s in self.states if s.trained == self.main.trained and s.size != self.main.size)
        return next(states, None)


def compare(subjects: Sequence[Subject], sample: Sample, plan: Plan, *, progress: bool = False) -> list[Result]:
    """Measure all models on the same inputs.

    A measurement that a model does not support is named in `Result.missing`; all others are made. The names of the
    models differ; the sample is from `sample_for`.
    """
    names = [subject.name for subject in subjects]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise InputError(f"{duplicates[0]} is named twice")
    available = len(sample.raw)
    plan = replace(plan, inputs=min(plan.inputs, available), answers=min(plan.answers, available))
    costs = [estimate_cost(subject, sample, plan) for subject in subjects]
    total = sum(cost.total(plan) for cost in costs)
    with tqdm(total=total, bar_format=BAR, smoothing=0, disable=not progress, leave=False) as bar:
        return [measure(subject, sample, plan, cost, bar) for subject, cost in zip(subjects, costs, strict=True)]


def measure(subject: Subject, sample: Sample, plan: Plan, cost: Cost, bar: tqdm) -> Result:
    """Measure one model in all states, then its attention and its accuracy in the first of them."""
    raw = sample.first(plan.inputs).raw
    result = Result(subject, 0)
    for (trained, size), seconds in zip(plan.states(subject), cost.states, strict=True):
        description = f"{subject.inputs_text(size)}, {'trained' if trained else 'untrained'}"
        bar.set_description(f"{subject.name}: {description}")
        brief = bool(result.states)  # only the first state has fields without shortcuts
        options = {"cumulative_only": brief, "progress": lambda part, s=seconds: bar.update(part * s * plan.inputs)}
        try:
            state, built = measure_state(subject, raw, plan, trained, size, **options)
            result.states.append(state)
            if not brief:
                network = built
        except (ValueError, AssertionError, RuntimeError) as error:  # raised by timm networks when they run
            if isinstance(error, InputError) and not result.states:
                raise
            if not result.states:
                raise InputError(f"{subject.name}, {description}: {error}") from error
            result.missing[description] = str(error)
    if not subject.trained:
        result.missing["weights"] = "no weights available; the figures show the network before training"

    size = result.main.size
    result.parameters = sum(parameter.numel() for parameter in network.parameters())
    bar.set_description(f"{subject.name}: attention")
    try:
        inputs = subject.inputs(sample.first(HEADS_INPUTS).raw, size)
        result.heads = measure_heads(network, inputs, result.main, in_time=subject.takes_audio)
    except ValueError as error:
        result.missing["attention"] = str(error)
    layer = result.main.layers[-1].fields.layer
    inputs = subject.inputs(sample.first(EXAMPLES).raw, size)
    try:
        result.examples = make_examples(subject, network, inputs, layer, attention=result.heads is not None)
    except ValueError as error:
        result.missing["rollout and relevance"] = str(error)
        result.examples = make_examples(subject, network, inputs, layer, attention=False)
    bar.set_description(f"{subject.name}: accuracy against what is visible")
    if subject.predicts_label and subject.trained:
        result.visible = measure_visible_accuracy(subject, network, sample.first(plan.answers), size)
    else:
        reason = f"{type(network).__name__} gives no single label" if subject.trained else "it is not trained"
        result.missing["accuracy against what is visible"] = reason
    bar.update(cost.visible * plan.answers)
    return result


def measure_state(
    subject: Subject,
    raw: Tensor,
    plan: Plan,
    trained: bool,
    size: float,
    *,
    cumulative_only: bool,
    progress: Callable[[float], None],
) -> tuple[State, nn.Module]:
    """The fields of one model in one state, and its network; options as in `iterate_fields`."""
    inputs, source = subject.inputs(raw, size), subject.source
    network = subject.network(trained=trained, size=size, sample=inputs)
    zero_init = None if trained else switch_on_branches(network, inputs, source)  # a note if it did
    if subject.takes_audio:
        find_module(network, source.name)  # a network of one's own may have no such front end
    layers = plan.layers_of(subject, network, inputs)
    numbers = layer_numbers(network, inputs, layers, source, cumulative_only=cumulative_only, progress=progress)
    if zero_init is None:
        return State(trained, size, numbers), network
    initial = subject.network(trained=False, size=size, sample=inputs)
    (last,) = layer_numbers(initial, inputs, layers[-1:], source, cumulative_only=True)
    return State(trained, size, numbers, zero_init, last), network


def measure_heads(network: nn.Module, inputs: Tensor, state: State, *, in_time: bool) -> HeadMeasures:
    """Measures of the attention heads; the tokens have the positions of the last layer's units."""
    last = state.layers[-1]
    rows, columns = last.fields.grid
    positions = torch.cartesian_prod(torch.arange(rows) * last.stride, torch.arange(columns) * last.stride)
    positions = positions[:, :1] if in_time else positions
    return head_measures(network, inputs, positions, class_tokens=class_tokens_of(network))


def measure_visible_accuracy(subject: Subject, network: nn.Module, sample: Sample, size: float) -> VisibleAccuracy:
    """Accuracy when only a window is visible, around the center of an image or the middle of a word.

    If the model does not know the labels of the sample, it is agreement with its predictions for the whole inputs.
    """
    labels = own_labels(subject, sample)
    inputs = subject.inputs(sample.raw, size)
    if not subject.takes_audio:
        # Between the distances from the center of an even side, which are n + 1/2.
        radii = (torch.tensor(RADII) * inputs.shape[-1]).round().unique() - 0.5
        batch = max(min(VISIBLE_VALUES // inputs[0].numel(), 100), 1)
        return visible_accuracy(network, inputs, labels, radii[radii > 0].tolist(), batch=batch)
    log_mel = network.tokens.log_mel
    with torch.no_grad():
        frames = log_mel(inputs)[:, None]
    centers = ((sample.middles - log_mel.window_samples / 2) / log_mel.hop_samples).clamp(0, frames.shape[2] - 1)
    radii = [radius / log_mel.hop_ms for radius in RADII_MS]
    model = partial(logits_from_frames, network)
    return visible_accuracy(model, frames, labels, radii, centers=centers, axes=(2,))


def own_labels(subject: Subject, sample: Sample) -> Tensor | None:
    """The labels of a sample as a model numbers them; `None` if there are none, or if it does not know all of them."""
    if sample.labels is None or not {sample.names[label] for label in sample.labels} <= {*(subject.labels or ())}:
        return None
    return torch.tensor([subject.labels.index(sample.names[label]) for label in sample.labels])


def logits_from_frames(network: nn.Module, frames: Tensor) -> Tensor:
    """The output of a speech network for log-mel frames: (B, 1, F, M) -> (B, classes)."""
    with network.tokens.log_mel.register_forward_hook(lambda *_: frames[:, 0]):
        return network(frames.new_zeros(len(frames), network.tokens.window_samples))


def make_examples(
    subject: Subject, network: nn.Module, inputs: Tensor, layer: Layer, *, attention: bool
) -> list[Example]:
    """Make maps of all kinds that the model supports: of the last layer, and of attention if it can be recomputed."""
    labels = None
    if subject.predicts_label and subject.labels is not None:
        with torch.no_grad():
            labels = [subject.labels[index] for index in network(inputs).argmax(-1)]
    fields = effective_fields(network, inputs, [layer], source=subject.source, probe_units=1, cumulative_only=True)
    field = fields[0].cumulative
    maps = {"field": field.on_source().sqrt()}
    if attention and subject.predicts_label:
        with torch.no_grad(), attention_weights(network) as weights:
            network(inputs)
        shape = maps["field"].shape[1:]
        last_rollout = at_head(network, inputs, rollout(weights)[-1])
        maps["rollout"] = token_map(last_rollout, shape, in_time=subject.takes_audio)
        maps["relevance"] = token_map(token_relevance(network, inputs), shape, in_time=subject.takes_audio)
    relative = {what: values / values.amax((1, 2), keepdim=True).clamp(min=1e-30) for what, values in maps.items()}
    return [Example(what, values.cpu(), labels) for what, values in relative.items()]


def token_map(tokens: Tensor, shape: tuple[int, int], *, in_time: bool) -> Tensor:
    """One value per token as a map: (K, T) -> (K, R, W), or (K, T, 1) over time."""
    if in_time:
        return tokens[..., None]
    side = round(tokens.shape[1] ** 0.5)
    return F.interpolate(tokens.unflatten(1, (side, side))[:, None], shape, mode="nearest")[:, 0]
