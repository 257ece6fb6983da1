"""Clips with one label each, and their augmentation."""
