"""The attention weights of any network, and measures of its heads."""
