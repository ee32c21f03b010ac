"""Views in groups, each with its own transforms, size and count.

A map of this folder:

  __init__.py    this map
  reading.py     Loader(views=[...]): the daemon's groups, and what they have in common
  delivering.py  the images of each group, as the tensors that the user gets
"""
