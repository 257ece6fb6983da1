"""Encoders and a decoder without self-attention, with the interface of those with it: LSTM, GRU and a sliding MLP."""

from vitspeech.encoders.recurrent import RecurrentEncoder
from vitspeech.encoders.recurrent_decoder import RecurrentDecoder
from vitspeech.encoders.window_mlp import WindowMLP

__all__ = ["RecurrentDecoder", "RecurrentEncoder", "WindowMLP"]
