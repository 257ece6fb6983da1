"""Images with one label each, and their augmentation."""
