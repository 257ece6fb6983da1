"""Images with one label each. `module.py` is the base class, `augment.py` changes training images, `reading.py` and
`pictures.py` read image files, `folder.py` reads your own images; `cifar.py` and `shapes.py` are data sets."""
