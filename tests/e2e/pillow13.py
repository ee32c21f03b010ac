"""Pillow 13.0.0 and numpy, for scripts that compare with them: where they are missing the script ends as skipped."""
import os
import pathlib
import sys

SKIPPED = 77
PILLOW = "13.0.0"
VENV = pathlib.Path(__file__).resolve().parent.parent.parent / ".venv" / "bin" / "python3"


def import_pillow(venv=True):
    """(numpy, PIL). From .venv where there is one, if that is wanted: the script starts itself anew with it."""
    if venv and VENV.exists() and pathlib.Path(sys.prefix).resolve() != VENV.parent.parent.resolve():
        os.execv(VENV, [str(VENV), *sys.argv])
    try:
        import numpy
        import PIL.Image
        import PIL.ImageEnhance
        import PIL.ImageFilter
        import PIL.ImageOps
    except ImportError as error:
        skip(f"{error} (make .venv with pillow=={PILLOW} and numpy)")
    if PIL.__version__ != PILLOW:
        skip(f"Pillow {PIL.__version__}, expected {PILLOW}")
    return numpy, PIL


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)
