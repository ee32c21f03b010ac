#!/usr/bin/env python3
"""penstock_ctypes.py has the structs of the headers, field by field: the compiler says so.

    layout.py CC INCLUDE_FOLDER

And the compiler is asked about structs that are wrong by a field's size, by its place, and by the whole: it must refuse each."""
import ctypes
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import penstock_ctypes as own


def compiles(compiler, include, text):
    command = [compiler, "-std=c17", "-fsyntax-only", "-I", include, "-x", "c", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True)


def with_fields(struct, fields):
    """The assertions with one struct's fields changed."""
    other = type(struct.__name__, (own.Struct,), {"_fields_": fields})
    kept, own.STRUCTS = own.STRUCTS, (other,)
    try:
        return own.assertions()
    finally:
        own.STRUCTS = kept


def main():
    compiler, include = sys.argv[1:]
    good = compiles(compiler, include, own.assertions())
    if good.returncode != 0:
        sys.exit(f"penstock_ctypes.py and the headers differ:\n{good.stderr}")
    fields = list(own.penstock_cuda_options._fields_)
    at = [name for name, _ in fields].index("layout")
    wrong = {
        "a field's size": fields[:at] + [("layout", ctypes.c_uint64)] + fields[at + 1:],
        "a field's place": fields[:at] + [fields[at + 1], fields[at]] + fields[at + 2:],
        "a field too many": fields + [("more", ctypes.c_uint64)],
        "a field too few": fields[:-1],
    }
    for what, changed in wrong.items():
        if compiles(compiler, include, with_fields(own.penstock_cuda_options, changed)).returncode == 0:
            sys.exit(f"the compiler did not notice {what}")
    print(f"{len(own.STRUCTS)} structs as in the headers")


if __name__ == "__main__":
    main()
