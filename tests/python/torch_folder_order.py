"""The order of a folder's samples, compared with torchvision's ImageFolder itself."""

from __future__ import annotations

import unittest

import folder_order
import support
from test_folder_order import image, named, seen

support.require("torch", "torchvision")

from torchvision.datasets import ImageFolder  # noqa: E402


class FolderOrder(unittest.TestCase):
    maxDiff = None

    def test_image_folder(self) -> None:
        for seed in range(4):
            root = support.folder / f"tree-{seed}"
            folder_order.make(root, image(), seed)
            samples = ImageFolder(str(root), is_valid_file=lambda path: path.lower().endswith(folder_order.EXTENSIONS)).samples
            # The rules that the other test uses are torchvision's.
            self.assertEqual(folder_order.image_folder(root), samples)
            self.assertEqual(seen(root), named(samples))


if __name__ == "__main__":
    support.main()
