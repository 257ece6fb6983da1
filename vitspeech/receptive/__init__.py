"""What a model sees: one measure of the receptive field for attention and convolution."""
