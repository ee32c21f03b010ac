"""What programs that were written for torch's DataLoader look for.

A map of this folder:

  __init__.py   this map
  dataset.py    loader.dataset: samples, targets, classes
  sampler.py    loader.sampler and loader.batch_sampler
  fixed.py      assignments that would change nothing
  unknown.py    arguments of other loaders: what to use instead
"""
