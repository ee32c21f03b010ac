"""Functions of the user at the end of transforms=[...], which run in this process.

A map of this folder:

  __init__.py   this map
  reading.py    reads a function, and how it is called
  running.py    applies functions to the rows of a batch, on threads
  reader.py     a reader whose batches pass through functions
"""
