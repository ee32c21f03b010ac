"""Loader(device="cuda"), with torch on the host and a fake device instead of torch's. It is not
part of torch_cuda.py, because here torch finds the fake driver."""

from __future__ import annotations

import unittest
import unittest.mock
from typing import Any

import support

support.require("torch")

import fake_device
from penstock import cuda, devices

if fake_device.driver is None:
    support._skip_program(fake_device.LACK)

SIDE, BATCH = 32, 8


class FakeDevice(fake_device.Device):
    def __init__(self, device: Any, dtype: str, channels_last: bool) -> None:
        super().__init__(dtype, channels_last)
        Loaders.devices.append(self)


class Loaders(unittest.TestCase):
    """Loader(device="cuda"), with a fake device wherever it asks torch for one."""

    devices: "list[FakeDevice]" = []

    def setUp(self) -> None:
        self.addCleanup(self.close_devices)
        fakes = (
            (devices, "torch_cuda", lambda name: "cuda:0" if name == "cuda" else None),
            (cuda, "_torch_device", lambda device: device),
            (cuda, "Tensors", FakeDevice),
        )
        for module, name, value in fakes:
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def close_devices(self) -> None:
        while self.devices:
            self.devices.pop().close()
        self.assertEqual(fake_device.driver.faults(), 0)

    def loader(self, device: str) -> Any:
        loader = support.penstock.Loader(support.dataset(), batch_size=BATCH, image_size=SIDE, device=device, seed=3)
        self.addCleanup(loader.close)
        return loader

    def test_as_on_the_host(self) -> None:
        on_device, on_host = self.loader("cuda"), self.loader("cpu")
        for _ in range(2):
            for given, wanted in zip(on_device.batches(), on_host.batches()):
                self.assertEqual(given.images.bytes(), wanted.images.permute(0, 2, 3, 1).contiguous().numpy().tobytes())
                self.assertEqual(given.labels.tolist(), wanted.labels.tolist())
                self.assertEqual(given.samples.tolist(), wanted.samples.tolist())
                self.assertEqual(on_device.state_dict(), on_host.state_dict())
        self.assertEqual(on_device.path(7), on_host.path(7))

    def test_goes_on(self) -> None:
        first = self.loader("cuda")
        taken = [batch.samples["index"].tolist() for _, batch in zip(range(3), first.batches())]
        state = first.state_dict()
        rest = self.loader("cpu")
        rest.load_state_dict(state)
        taken += [batch.samples["index"].tolist() for batch in rest.batches()]
        self.assertEqual(taken, [batch.samples["index"].tolist() for batch in self.loader("cpu").batches()])


if __name__ == "__main__":
    support.main()
