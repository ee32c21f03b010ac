#!/usr/bin/env python3
"""Every header compiles alone: the public ones as C99, C17, C++17 and, where nvcc is, CUDA; all others as C17.
Not NAME_body.h: such a file is a template that a .c includes with its macros set.

    headers.py ROOT CC CXX NVCC PYTHON     NVCC, and PYTHON, the folder of Python.h, are "" where there is none
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def commands(root, header, compilers):
    """(language, command) for each way in which this header has to compile; the source's path is appended."""
    cc, cxx, nvcc, python = compilers
    public = header.is_relative_to(root / "include")
    includes = ["-I", str(root / "include")] if public else ["-I", str(root), "-I", str(root / "daemon"),
                                                            "-I", str(root / "include")]
    if public:
        for standard in ("c99", "c17"):
            yield standard, [cc, f"-std={standard}", *WARNINGS, *includes, "-fsyntax-only", "-x", "c"]
        yield "c++17", [cxx, "-std=c++17", *WARNINGS, *includes, "-fsyntax-only", "-x", "c++"]
        if nvcc:
            yield "cuda", [nvcc, "-std=c++17", *includes, "-o", os.devnull, "-c", "-x", "cu"]
    else:
        # The toolkit's own headers lie beside nvcc; without it what includes them is not built.
        if header.is_relative_to(root / "client/cuda"):
            if not nvcc:
                return
            includes += ["-isystem", str(Path(nvcc).resolve().parent.parent / "include")]
        if header.is_relative_to(root / "client/python"):
            if not python:
                return
            includes += ["-DPy_LIMITED_API=0x030B0000", "-isystem", python]
        yield "c17", [cc, "-std=gnu17", "-D_GNU_SOURCE", *WARNINGS[:3], *includes, "-fsyntax-only", "-x", "c"]


def compile_one(job):
    header, language, command, source = job
    result = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    return header, language, result.returncode, result.stderr


def main():
    if len(sys.argv) != 6:
        sys.exit("usage: headers.py ROOT CC CXX NVCC PYTHON")
    root = Path(sys.argv[1]).resolve()
    headers = [path for top in ("include", "proto", "daemon", "client") for path in sorted((root / top).rglob("*.h"))
               if not path.stem.endswith("_body")]
    if not headers:
        sys.exit(f"headers: none below {root}")
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number, header in enumerate(headers):
            source = Path(folder, f"{number}.c")
            # Twice, so that a header without its guard is caught as well.
            source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void);\n', encoding="utf-8")
            for language, command in commands(root, header, sys.argv[2:6]):
                jobs.append((header, language, command, source))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(compile_one, jobs))
    failed = [result for result in results if result[2] != 0]
    for header, language, _, text in failed:
        print(f"{header.relative_to(root)} does not compile alone as {language}:\n{text}")
    print(f"headers: {len(headers)} headers, {len(results)} compilations, {len(failed)} failed"
          + ("" if sys.argv[4] else "; no nvcc, so not as CUDA") + ("" if sys.argv[5] else "; no Python.h, so not the extension's"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
