"""How far a speech network hears back and ahead: the effective field of its encoder's outputs as two numbers.

Shapes: B clips, N samples.
"""

from torch import Tensor, nn

from vitspeech.receptive.fields.effective import effective_fields
from vitspeech.receptive.fields.extent import measure_time
from vitspeech.receptive.fields.layers import Layer, default_layers


def effective_reach_ms(network: nn.Module, waveforms: Tensor) -> tuple[float, float]:
    """The effective field of the encoder's last block back and ahead of a token's center, in milliseconds.

    90 % of the gradient energy in the log-mel frames before (after) the center of the token lies within that distance;
    these are `back_90` and `ahead_90` of `extent_in_time`. A token is itself made of 85 ms of sound by default, so a
    causal encoder has a small reach ahead, too. The measured tokens are in the middle half of the clips, and nothing
    beyond the clips counts: compare networks on the same clips, which should be several times longer than the reach.

    Args:
        network: A speech network, trained, in evaluation mode.
        waveforms: At least two clips of sound within ±1 (B, N); a few dozen give the numbers to about a tenth.

    Raises:
        InputError: If there are fewer than two clips, the network is none that takes speech, or no gradient is left.
    """
    layer = default_layers(network, waveforms)[-1]
    (fields,) = effective_fields(
        network, waveforms, [layer], source=Layer("tokens.log_mel", "mel"), cumulative_only=True
    )
    field = fields.cumulative
    numbers = measure_time(field, field.mean.double().flatten()[None], cell_ms=network.tokens.log_mel.hop_ms)
    return float(numbers["back_90"]), float(numbers["ahead_90"])
