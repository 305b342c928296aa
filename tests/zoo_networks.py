"""The zoo's convolutional networks that differ in kinds of kernels, for tests of cut ones."""

from benchmarks import zoo

REPEATED = ("resnet18", "resnet50", "mobilenet_v2")
"""Of 391 kinds of kernels (template, types, window, epilogue; five targets) all are in others too."""

DISTINCT = tuple(name for name in zoo.NETWORKS if name not in REPEATED)
