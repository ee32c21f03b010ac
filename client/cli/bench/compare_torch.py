"""What `penstock bench --compare` runs: PyTorch's DataLoader over the same files, timed as bench times penstock.

    python compare_torch.py probe           versions, or what is missing, as JSON
    python compare_torch.py run FD OPTIONS  measures; FD: the list of files; OPTIONS: JSON

It makes a map-style Dataset (like torchvision's ImageFolder: open, Image.open, convert("RGB")) with torchvision's transforms and
PILToTensor, so uint8 rows like penstock's; neither loader normalizes. Workers are forked and persist, and batches are collated as
usual. The clock: a second of warm-up after the first batch, then from the arrival of one batch to the first that comes at least
`seconds` later. Images that Pillow refuses are counted and replaced by the next one. Needs only the standard library, torch,
torchvision and Pillow."""
import json
import os
import struct
import sys
import time


def say(**keys):
    print(json.dumps(keys), flush=True)


def probe():
    """The versions; exits with 3 after saying what is missing."""
    versions = {"python": sys.version.split()[0]}
    for name, module in (("torch", "torch"), ("torchvision", "torchvision"), ("torchvision", "torchvision.transforms"),
                         ("pillow", "PIL"), ("pillow", "PIL.Image")):
        try:
            versions[name] = str(getattr(__import__(module), "__version__", "?"))
        except Exception as error:  # a half-installed one fails with anything
            say(missing=name, why=f"{type(error).__name__}: {error}")
            sys.exit(3)
    return versions


def read_list(fd):
    """(paths, [(path number, offset, size)]). The list has entries P, path, NUL, and entries S with three numbers."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        data = file.read()
    paths, samples, at = [], [], 0
    while at < len(data):
        if data[at:at + 1] == b"P":
            end = data.index(b"\0", at)
            paths.append(data[at + 1:end])
            at = end + 1
        else:
            samples.append(struct.unpack_from("<QQQ", data, at + 1))
            at += 25
    return paths, samples


def transforms_of(options):
    from torchvision import transforms
    drawn = ["bilinear", "bicubic"] if options["interpolation"] == "random" else [options["interpolation"]]
    filters = [getattr(transforms.InterpolationMode, name.upper()) for name in drawn]

    def sized(kind, size):
        resizes = [kind(size, interpolation=filter_) for filter_ in filters]
        return resizes[0] if len(resizes) == 1 else transforms.RandomChoice(resizes)

    size = options["image_size"]  # a number, or [height, width]
    resize = [side * 256 // 224 for side in size] if isinstance(size, list) else size * 256 // 224
    if options["train"]:
        chain = [sized(transforms.RandomResizedCrop, size), transforms.RandomHorizontalFlip()]
    else:
        chain = [sized(transforms.Resize, resize), transforms.CenterCrop(size)]
    return transforms.Compose([*chain, transforms.PILToTensor()])


def die_with_parent(_worker):
    try:
        import ctypes
        ctypes.CDLL(None).prctl(1, 9)
    except (OSError, AttributeError):
        pass  # then the DataLoader's own watchdog ends it some seconds later


def make_dataset(paths, samples, whole_files, transform):
    import io

    import torch.utils.data
    from PIL import Image
    shards = {}

    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return len(samples)

        def open(self, number):
            path, offset, size = samples[number]
            if whole_files:
                with open(paths[path], "rb") as file:
                    return Image.open(file).convert("RGB")
            if path not in shards:
                shards[path] = os.open(paths[path], os.O_RDONLY | os.O_CLOEXEC)
            return Image.open(io.BytesIO(os.pread(shards[path], size, offset))).convert("RGB")

        def __getitem__(self, number):
            for broken in range(100):
                try:
                    return transform(self.open((number + broken) % len(samples))), broken
                except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
                    pass
            raise RuntimeError(f"100 images in a row are broken, the first: {paths[samples[number][0]]!r}")

    return Files()


def batches(loader):
    while True:
        yield from loader


def measure(loader, seconds, warmup):
    """(images, seconds of the window, broken images met in it)."""
    warm = begin = None
    images = broken = 0
    for pixels, failed in batches(loader):
        now = time.monotonic()
        if begin is not None:
            images += len(pixels)
            broken += int(failed.sum())
            if now - begin >= seconds:
                return images, now - begin, broken
        elif warm is None:
            warm = now
        elif now - warm >= warmup:
            begin = now


def run(fd, options):
    versions = probe()
    import torch.utils.data
    paths, samples = read_list(fd)
    torch.manual_seed(options["seed"])
    loader = torch.utils.data.DataLoader(
        make_dataset(paths, samples, options["whole_files"], transforms_of(options)),
        batch_size=options["batch_size"], shuffle=options["shuffle"], drop_last=True, num_workers=options["workers"],
        persistent_workers=True, multiprocessing_context="fork", worker_init_fn=die_with_parent)
    if not len(loader):
        sys.exit(f"{len(samples)} images make no batch of {options['batch_size']}")
    images, seconds, broken = measure(loader, options["seconds"], options["warmup"])
    say(**versions, images=images, seconds=seconds, images_per_s=images / seconds, broken=broken)
    sys.stdout.flush()
    os._exit(0)  # the workers die with this process; joining them may take longer than the run did


def main(arguments):
    if arguments[:1] == ["probe"]:
        say(**probe())
    elif arguments[:1] == ["run"] and len(arguments) == 3:
        run(int(arguments[1]), json.loads(arguments[2]))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
