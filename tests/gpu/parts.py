"""What tests/gpu/run does one after the other. Each part is a function of the Stage (stage.py) that returns a sentence, or raises
Failed, Skipped or Overran; `stage.figure` notes what it measured. The table at the end says in which order and within how many seconds."""
import collections
import json
import math
import re
import shutil
import statistics
from pathlib import Path

from stage import Failed, Overran, Skipped, last_words

COPY_FLOOR, KERNEL_FLOOR, WAIT_CEILING = 0.95, 0.80, 0.01
BATCH = 256
HOUR_S = 3600
NOISE = 0.2  # of the loss, between runs whose sums were rounded differently
USUAL_RATE = 2700  # images/s of ResNet-50, where it was not measured: for the number of batches alone
TORCH_STEPS = {"resnet50": 60, "resnet18": 200}  # some seconds of a large GPU
OPTIONAL = ("penstock_python",)  # wants Python's headers
TARGETS = ("penstockd", "penstock", "make_dataset", "train_cpu", "train_cuda", "train_cuda_self_test", "penstock_cuda", "gpu_attach", "gpu_rates", "gpu_kernels") + OPTIONAL
# For the emulated GPU in place of train_cuda's.
TWIN = ("--batch-size", 8, "--image-size", 16, "--width", 8, "--blocks", 1, "--rate", 0.03, "--every", 1)


# ---- building, data, the daemon ----

def build_options(stage):
    """What of the daemon no GPU has to do with is left out: fewer libraries are needed."""
    options = ["-G", stage.generator(), "-DCMAKE_BUILD_TYPE=Release", "-DPENSTOCK_WERROR=OFF", "-DBUILD_TESTING=OFF", "-DPENSTOCK_GPU_PROGRAMS=ON",
               "-DPENSTOCK_HTTP=OFF", "-DPENSTOCK_TOP=OFF", "-DPENSTOCK_SYSTEMD=OFF",
               f"-DPENSTOCK_SECCOMP={'ON' if stage.has_library('libseccomp') else 'OFF'}"]
    if stage.capability:
        options.append(f"-DPENSTOCK_CUDA_ARCHITECTURES={stage.capability}")
    if stage.python:  # cuDNN is looked for among its packages
        options.append(f"-DPython3_EXECUTABLE={stage.python}")
    if stage.bundle:
        options += [f"-DPKG_CONFIG_EXECUTABLE={stage.pkg_config()}", f"-DCMAKE_PREFIX_PATH={stage.bundle}",
                    f"-DPENSTOCK_FONT_TABLE={stage.bundle}/font_table.h"]
    return options


def build(stage):
    if stage.given_bin:
        return "not built: --bin names programs that are"
    lacks, packages = stage.lacks()
    if lacks:
        install = f" (apt-get install {' '.join(packages)})" if packages else ""
        raise Failed(f"this machine lacks {', '.join(lacks)}{install}; libraries may be brought along: tests/gpu/README.md")
    stage.run("cmake", "-S", stage.root, "-B", stage.build, *build_options(stage))
    known = stage.run("cmake", "--build", stage.build, "--target", "help")
    wanted = TARGETS if stage.gpu else TARGETS + ("cuda_fake_driver",)
    targets = [name for name in wanted if re.search(rf"^(\.\.\. )?{name}(:|$)", known, re.MULTILINE)]
    # What cannot be compiled costs no other program.
    stage.run("cmake", "--build", stage.build, "--parallel", str(stage.cores), "--target", *targets, "--",
              *(("-k", "0") if stage.generator() == "Ninja" else ("-k",)))
    missing = [name for name in wanted if name not in targets and name not in OPTIONAL]
    if missing:
        raise Failed(f"CMake made no target for {', '.join(missing)}: its log says what it did not find (nvcc, cuDNN)")
    return f"{len(targets)} targets, {stage.cores} at a time"


def data(stage):
    small = stage.work / "painted"
    count = stage.pick(200, 40)
    stage.run(stage.program("make_dataset"), small, "--per-class", count, "--min-side", 64, "--max-side", 200)
    stage.painted = small
    words = f"{6 * count} small pictures painted"
    photographs = stage.bundle and stage.bundle / "images"
    if photographs and photographs.is_dir():
        stage.photographs = photographs
        return words + f"; {sum(1 for path in photographs.rglob('*') if path.is_file())} photographs of the bundle"
    stage.photographs = stage.work / "large"
    count, least, most = stage.pick((100, 300, 600), (20, 100, 200))
    stage.run(stage.program("make_dataset"), stage.photographs, "--per-class", count, "--min-side", least, "--max-side", most)
    return words + f"; {6 * count} larger ones in place of photographs"


def daemon(stage):
    stage.start_daemon()
    return f"{stage.daemon_memory >> 20} MiB"


# ---- libpenstock_cuda ----

def attach(test, number, without_gpu):
    """One test of gpu_attach; `number` with a GPU, the other with the fake driver."""
    def part(stage):
        wanted = stage.pick(number, without_gpu)
        arguments = [stage.photographs, test] + ([wanted] if wanted else [])
        return stage.run(*stage.on_device("gpu_attach"), *arguments).strip().splitlines()[-1]
    return part


def kernels(stage):
    return kernel_figures(stage, stage.run(*stage.on_device("gpu_kernels"), *stage.pick((), ("--small",))))


def kernel_figures(stage, text):
    """gpu_kernels ends with a line of JSON, which its opening comment describes."""
    found = json.loads(text.strip().splitlines()[-1])
    for name, share in found["kernels"].items():
        stage.floor(f"{name}: share of a copy's rate", f"{share:.3f}", f">= {KERNEL_FLOOR}", share >= KERNEL_FLOOR)
    for name, share in found["augmented"].items():
        stage.figure(f"{name}: share of a copy's rate", f"{share:.3f}")
    peak = f"{found['peak_gb_s']:.0f} GB/s" if found["peak_gb_s"] else "unknown"
    return f"equal to the reference; a copy within the device: {found['bandwidth_gb_s']:.0f} GB/s read and written, the memory's peak: {peak}"


SANITIZED = (("memcheck", "kernels", "--compare"), ("memcheck", "transform", 2), ("memcheck", "ring", 10), ("racecheck", "transform", 2),
             ("synccheck", "transform", 2))


def sanitizer(stage):
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer")
    if not program:
        raise Skipped("there is no compute-sanitizer on this machine")
    return sanitize(stage, program)


def sanitize(stage, program):
    """A call that the driver refuses is the programs' own affair (they try what a device can do, and look at each result), and no finding."""
    clean, found = [], []
    for tool, test, number in SANITIZED:
        name = f"{tool} over {test}"
        tested = [*stage.on_device("gpu_kernels"), number] if test == "kernels" else \
            [*stage.on_device("gpu_attach"), stage.photographs, test, number]
        try:
            text, code = stage.attempt(program, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "9", *tested)
            refused = re.search(r".*(?:[Dd]evice not supported|not supported on (?:this|the) (?:device|system|GPU)|Unsupported device).*", text)
            if refused and code:
                raise Skipped(f"compute-sanitizer refuses this device: {refused.group(0).strip()[:200]}")
            stage.ended(program, text, code)
            clean.append(name)
        except Failed as error:  # the other tools may see more
            found.append(f"{name}: {error}")
        except Overran as error:
            raise Overran("; ".join(found + [f"{name}: {error}"] + said_clean(clean))) from None
    if found:
        raise Failed("; ".join(found + said_clean(clean)))
    return said_clean(clean)[0]


def said_clean(names):
    return ["nothing found: " + ", ".join(names)] if names else []


def rates(stage):
    numbers = stage.pick((), (2, 8, 6))
    found = json.loads(stage.run(*stage.on_device("gpu_rates"), stage.photographs, *numbers))
    for mode in ("registered", "ring"):
        if found[mode] is None:
            stage.figure(f"copies, {mode}", "this device does not allow it", f">= {COPY_FLOOR}" if mode == "registered" else None, None)
            continue
        value = found[mode]
        text = f"{value['attached_gb_s']:.2f} of {value['card_gb_s']:.2f} GB/s: {value['ratio']:.3f}"
        if mode == "registered":
            stage.floor(f"copies, {mode}", text, f">= {COPY_FLOOR}", value["ratio"] >= COPY_FLOOR)
        else:
            stage.figure(f"copies, {mode}", text)
    nodes = {name: f"node {node}" if node >= 0 else "an unknown node" for name, node in found["numa"].items()}
    return (f"medians of rounds of {found['slots'] - 1} copies of {found['batch_bytes'] / 1e6:.1f} MB; the card's own from "
            f"{found['reference_bytes'] / 1e6:.0f} MB of pinned memory on NUMA {nodes['pinned']}, the device is on {nodes['device']}")


# ---- the trainers of client/examples ----

def losses_of(text):
    return [float(value) for value in re.findall(r"^(?!validation).*\bloss\s+([0-9.]+|-?nan|inf)\b", text, re.MULTILINE)]


def must_fall(text):
    """Says how the loss went: that of the last tenth of the lines must be below that of the first."""
    losses = losses_of(text)
    if len(losses) < 2:
        raise Failed(f"{len(losses)} lines with a loss: too few to tell whether it falls")
    lost = [i for i, loss in enumerate(losses, 1) if not math.isfinite(loss)]
    if lost:
        raise Failed(f"the loss is no number from line {lost[0]} of {len(losses)} on")
    tenth = max(1, len(losses) // 10)
    first, last = statistics.mean(losses[:tenth]), statistics.mean(losses[-tenth:])
    if not last < first:
        raise Failed(f"the loss did not fall: {first:.3f} first, {last:.3f} last")
    return f"loss {first:.3f} to {last:.3f} in {len(losses)} lines"


def train_cpu(stage):
    return must_fall(stage.run(stage.program("train_cpu"), stage.painted, "--seconds", stage.pick(16, 11)))


def train_cuda(stage, *options, program="train_cuda"):
    """Without a GPU: the emulated one of tests/e2e/examples, whose batches are smaller."""
    if stage.gpu:
        return stage.run(*stage.with_toolkit(program), *options)
    if not (stage.bin / f"{program}_twin").exists():
        raise Skipped("needs a GPU (and the emulated one of tests/e2e/examples was not built)")
    return stage.run(stage.program(f"{program}_twin"), *options)


def self_test(stage):
    return train_cuda(stage, program="train_cuda_self_test").strip().splitlines()[-1]


def train_cuda_falls(stage):
    text = train_cuda(stage, stage.painted, *stage.pick(("--steps", 400, "--batch-size", 128), ("--steps", 16, *TWIN)))
    line = re.findall(r"([0-9.]+) images/s  waited +([0-9.]+) %", text)[-1]
    stage.figure("train_cuda, its last line", f"{line[0]} images/s, waited {line[1]} %")
    return must_fall(text)


def last_weights(text):
    return re.findall(r"after step \d+, weights ([0-9a-f]+)", text)[-1]


def train_cuda_resumes(stage):
    """Stopped in the middle and resumed: the loss must end where that of an uninterrupted run does."""
    half = stage.pick(100, 8)
    checkpoint, size = stage.work / "checkpoint", (stage.painted, "--steps", 2 * half,
                                                   *stage.pick(("--batch-size", 64, "--image-size", 128), TWIN))
    train_cuda(stage, *size, "--stop-at", half, "--checkpoint", checkpoint)
    resumed = train_cuda(stage, *size, "--checkpoint", checkpoint, "--resume")
    whole = train_cuda(stage, *size)
    if f"going on after step {half} " not in resumed:
        raise Failed(f"the resumed run does not say that it goes on after step {half}")
    ends = [statistics.mean(losses_of(text)[-3:]) for text in (resumed, whole)]
    if not abs(ends[0] - ends[1]) <= max(0.25 * max(ends), NOISE):  # also where one is no number
        raise Failed(f"resumed, the loss ends at {ends[0]:.3f}; uninterrupted, at {ends[1]:.3f}")
    same = "the same weights" if last_weights(resumed) == last_weights(whole) else "the weights differ (cuDNN's choice of algorithms)"
    return f"goes on after step {half}; the loss ends at {ends[0]:.3f} resumed, at {ends[1]:.3f} uninterrupted; {same}"


# ---- PyTorch ----

def daemon_rate(stage):
    text = stage.run(stage.program("penstock"), "bench", stage.photographs, "-b", stage.pick(BATCH, 16), "--seconds", stage.pick(5, 1),
                     "--max-broken", 1, "--json")
    found = json.loads(text)
    stage.daemon_rate = found["images_per_s"]
    return f"{stage.daemon_rate:.0f} images/s reach a trainer that does nothing with them"


def torch_model(model):
    def part(stage):
        options = stage.pick(("--steps", TORCH_STEPS[model], "--seconds", 14),
                             ("--steps", 1, "--warm-up", 1, "--batch-size", 2, "--image-size", 32, "--workers", 1))
        command = in_torch(stage, "train_torch.py", stage.photographs, "--model", model, *options, "--loader",
                           "synthetic,penstock,dataloader,synthetic")
        return torch_run(stage, model, command)
    return part


def in_torch(stage, program, pictures, *arguments):
    """How a program of this folder is started that needs torch and the Python package: without a GPU, with the stand-in."""
    if not pictures:
        raise Failed("no pictures: the part data made none")
    if not stage.python:
        raise Skipped("no Python with PyTorch (--python names one; the log says why it cannot be imported)")
    package = stage.bin.parent / "python"
    if not (package / "penstock/_penstock.abi3.so").exists():
        raise Skipped("the Python package was not built: it wants Python's headers, 3.11 or later (python3-dev)")
    here, stand_in = Path(__file__).parent, ()
    if not stage.gpu:
        stand_in = here / "stand_in.py", stage.fake_driver() or stage.skip_without_driver()
    return ["env", f"PYTHONPATH={package}", stage.python, *stand_in, here / program, pictures, *arguments]


def torch_run(stage, model, command):
    try:
        text, code = stage.attempt(*command)
    except Overran as error:  # what it had measured counts
        _, words = torch_figures(stage, model, error.text)
        raise Overran("; ".join([str(error)] + words)) from None
    failed, words = torch_figures(stage, model, text)
    if not failed and not words and code == 0 and text.strip():
        raise Skipped(json.loads(text.strip().splitlines()[-1])["skipped"])
    if failed or code != 0 or not words:
        raise Failed("; ".join(failed + words) if failed else f"exit code {code}: {last_words(text)}")
    return words[0]


def torch_line(found):
    workers = f", {found['workers']} workers" if "workers" in found else ""
    return (f"{found['images_s']:.0f} images/s, waiting {100 * found['waiting_share']:.2f} %, in the iterator "
            f"{100 * found['iterator_share']:.2f} %{workers}")


def torch_figures(stage, model, text):
    """Notes what was measured; says what failed, and how penstock did where that can be said."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    counts, failed = collections.Counter(), []
    for line in found:
        counts[line["loader"]] += 1
        label = f"{model}, {line['loader']}" + (" (again)" if counts[line["loader"]] > 1 else "")
        if "images_s" in line:
            stage.figure(label, torch_line(line))
        else:
            stage.figure(label, line.get("skipped") or line["failed"])
            failed += [line["failed"]] if "failed" in line else []
    ran = {line["loader"] for line in found if "images_s" in line}
    return failed, [torch_verdict(stage, model, found)] if ran >= {"synthetic", "penstock"} else []


def torch_verdict(stage, model, found):
    of_loader = {name: [line for line in found if line["loader"] == name and "images_s" in line] for name in ("synthetic", "penstock")}
    possible = statistics.mean(line["images_s"] for line in of_loader["synthetic"])
    fed = of_loader["penstock"][0]
    if model == "resnet50":
        stage.model_rate = possible
    applies = stage.gpu and stage.daemon_rate and stage.daemon_rate > possible
    waiting = fed["waiting_share"]
    stage.figure(f"{model}: waiting for penstock", f"{100 * waiting:.2f} % (the daemon's rate {stage.daemon_rate or 0:.0f}, the model's "
                 f"{possible:.0f} images/s)", f"< {100 * WAIT_CEILING:.0f} %" if applies else None, waiting < WAIT_CEILING if applies else None)
    stage.figure(f"{model}: queue stalled in front of copies", f"{100 * fed['stalled_share']:.2f} %")
    return (f"penstock feeds {fed['images_s'] / possible:.3f} of what synthetic data reaches; {fed['verdict']}; "
            f"torchvision {fed['torchvision']}; {fed['dtype']}")


def reader(stage):
    return stage.run(*in_torch(stage, "reader.py", stage.painted)).strip().splitlines()[-1]


def growth(stage):
    rate = stage.model_rate or USUAL_RATE
    batches = stage.pick(round(HOUR_S * rate / BATCH), 200)
    text = stage.run(*stage.on_device("gpu_attach"), stage.painted, "growth", batches).strip().splitlines()[-1]
    if not stage.gpu:
        return text
    of = "measured here" if stage.model_rate else "a usual one: it was not measured here"
    return f"{text}. An hour of ResNet-50 at {rate:.0f} images/s ({of}) is {batches} batches of {BATCH}: as many batches, smaller ones"


Part = collections.namedtuple("Part", "name seconds what run")

PARTS = (
    Part("build", 300, "penstock and the programs of tests/gpu", build),
    Part("data", 60, "pictures", data),
    Part("daemon", 20, "penstockd, with a socket and a cache of its own", daemon),
    Part("registered", 45, "content after slot reuse, the daemon's memory registered", attach("registered", 0, 10)),
    Part("ring", 30, "content after slot reuse, through the pinned ring", attach("ring", 0, 10)),
    Part("release", 30, "a released batch stays until its queue has come to it", attach("release", 0, 1)),
    Part("transform", 30, "transform and targets against the reference", attach("transform", 0, 2)),
    Part("together", 30, "two processes on one stream", attach("together", 0, 5)),
    Part("killed", 40, "a trainer killed while batches are copied for it", attach("killed", 0, 1)),
    Part("memory", 30, "device memory against the stated number of batches", attach("memory", 0, 0)),
    Part("kernels", 45, "kernels against the reference, and their bandwidth", kernels),
    Part("rates", 70, "host to device against the card's pinned rate", rates),
    Part("self-test", 80, "train_cuda's own test of its arithmetic", self_test),
    Part("train_cuda", 90, "400 steps on the GPU: the loss falls", train_cuda_falls),
    Part("resume", 60, "train_cuda stopped, and gone on with", train_cuda_resumes),
    Part("train_cpu", 30, "the CPU's trainer: the loss falls", train_cpu),
    Part("daemon's rate", 30, "penstock bench", daemon_rate),
    Part("resnet50", 140, "PyTorch, AMP, channels_last", torch_model("resnet50")),
    Part("resnet18", 100, "PyTorch, AMP, channels_last", torch_model("resnet18")),
    Part("reader", 60, "the Python package's batches against those on the CPU", reader),
    Part("growth", 60, "an hour's worth of batches", growth),
    Part("sanitizer", 90, "compute-sanitizer", sanitizer),
)
