"""Makes warp_matrices.h: the matrices that torchvision's affine and Pillow's rotate compute in CPython's arithmetic.

usage: warp_matrices.py > warp_matrices.h    (with Pillow 13.0.0)"""

import pathlib
import random
import sys

import PIL.Image as Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e/pixels"))
import warp_pillow  # noqa: E402  its formulas, which it holds against torchvision itself


class Caught(Image.Image):
    """An image that keeps the matrix that rotate() would have applied."""

    def transform(self, size, method, data, *rest, **more):
        self.matrix = list(data)
        return self


def turned(width, height, angle, center):
    image = Caught()
    image._size = (width, height)
    return image.rotate(angle, center=center).matrix


def cases():
    for _ in range(120):
        width, height = random.choice(((224, 224), (32, 32), (97, 61), (1, 1)))
        center = [random.randrange(width), random.uniform(0, height)] if random.random() < 0.3 else None
        turn = random.random() < 0.4
        angle = random.choice((random.uniform(-180, 180), random.randrange(-44, 45) or 1))
        numbers = [angle, random.randrange(-99, 99), random.randrange(-99, 99), random.uniform(0.3, 2),
                   random.uniform(-45, 45), random.choice((0, random.uniform(-45, 45)))]
        if turn:
            yield width, height, numbers, center, turn, turned(width, height, angle, center)
        else:
            image = Image.new("RGB", (width, height))
            yield width, height, numbers, center, turn, warp_pillow.move_matrix(image, [*numbers, *(center or [])])


def main():
    random.seed(2)
    print("/* Made by warp_matrices.py with Pillow 13.0.0 and CPython's math. */\n#pragma once\n")
    print("#include <stdbool.h>\n#include <stdint.h>\n")
    print("static const struct warp_matrices {\n\tuint32_t width, height;\n\tbool turned, centered;")
    print("\tdouble number[6], center[2], matrix[6];\n} warp_matrices[] = {")
    for width, height, numbers, center, turn, matrix in cases():
        rows = (numbers, center or [0, 0], matrix)
        text = ",\n\t\t".join("{" + ", ".join(float(v).hex() for v in row) + "}" for row in rows)
        print(f"\t{{{width}, {height}, {str(turn).lower()}, {str(bool(center)).lower()}, {text}}},")
    print("};")


if __name__ == "__main__":
    main()
