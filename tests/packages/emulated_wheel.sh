#!/usr/bin/env bash
# Runs a wheel for 64-bit ARM on x86-64 under qemu. By hand, as root; nothing is left behind.
#
#   tests/packages/emulated_wheel.sh WHEEL IMAGES [--beside WHEEL] [--suite SUITE] [--mirror MIRROR]
#
# IMAGES is a folder of class folders with a few images. The root is SUITE (bookworm) for arm64 by
# debootstrap, with Debian's python3 and python3-numpy, unpacked and not set up: qemu-aarch64 takes
# libraries from it, so the kernel need not know the programs of another machine. --beside names the
# wheel of the same commit for this machine: both must make the same bytes of IMAGES. It runs with
# Debian's python3 and python3-numpy of this machine.
#
# The kernel starts no program for ARM here, so the loader cannot start its private daemon: this
# script starts penstockd, and the loader connects to it. qemu has no io_uring, so the daemon reads
# with threads. What an emulator takes for its work says nothing of a machine, so no time is printed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	sed -n 's/^#   tests/usage: tests/p' "$0" >&2
	exit 2
}

suite=bookworm beside="" mirror="" words=()
while [ $# -gt 0 ]; do
	case "$1" in
	--beside | --suite | --mirror)
		[ -n "${2-}" ] || usage
		printf -v "${1#--}" %s "$2"
		shift
		;;
	-*) usage ;;
	*) words+=("$1") ;;
	esac
	shift
done
if [ "${#words[@]}" -ne 2 ] || [ ! -f "${words[0]}" ] || [ ! -d "${words[1]}" ]; then usage; fi
wheel=$(realpath "${words[0]}") images=$(realpath "${words[1]}")
if [ "$(id -u)" -ne 0 ]; then
	echo "emulated_wheel: debootstrap needs root" >&2
	exit 1
fi
if ! command -v qemu-aarch64 >/dev/null; then
	echo "emulated_wheel: qemu-aarch64 is missing: scripts/install-deps wheel installs it (Debian's qemu-user)" >&2
	exit 1
fi
[[ "$wheel" == *_aarch64.whl ]] || usage
# shellcheck source=tests/packages/root.bash
source "$here/root.bash"

echo "$name: unpacking $suite for arm64"
logged debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,python3-numpy "$suite" "$root" ${mirror:+"$mirror"}
# In a container, debootstrap leaves a link to the machine's /proc, which is not to be unmounted.
rm -rf --one-file-system "$root/proc"
mkdir "$root/proc"
for package in "$root"/var/cache/apt/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root"
done

# No package was set up, so nothing chose the libraries for linear algebra that NumPy needs.
libraries=/usr/lib/aarch64-linux-gnu
emulated() {
	qemu-aarch64 -L "$root" -E LD_LIBRARY_PATH="$libraries/blas:$libraries/lapack" "$@"
}

# unpacked WHEEL: like pip's --target. Prints the folder.
unpacked() {
	local into=$folder/${1##*/}
	python3 -m zipfile -e "$1" "$into"
	chmod +x "$into"/penstock/penstockd "$into"/penstock-*.data/scripts/*
	echo "$into"
}

export XDG_CACHE_HOME=$folder/cache XDG_STATE_HOME=$folder/state PYTHONDONTWRITEBYTECODE=1
mkdir -m 0700 "$folder/run"
export XDG_RUNTIME_DIR=$folder/run PENSTOCK_SOCKET=$folder/run/penstock.sock

cat >"$folder/epoch.py" <<'PYTHON'
import hashlib
import platform
import sys

import numpy
import penstock

digest, seen = hashlib.sha256(), 0
with penstock.Loader(sys.argv[1], batch_size=4, image_size=224, seed=1, dtype="uint8", device="cpu") as loader:
    for images, labels in loader:
        if not seen:
            print("first batch", images.shape, images.dtype, labels.tolist(), file=sys.stderr)
        digest.update(images.tobytes())
        digest.update(labels.tobytes())
        seen += len(labels)
print(f"penstock {penstock.__version__}, Python {platform.python_version()}, NumPy {numpy.__version__}, {platform.machine()}", file=sys.stderr)
print(seen, digest.hexdigest())
PYTHON

# epoch PYTHON KERNELS RUN...: the sum of an epoch by a daemon that RUN starts and by that Python.
epoch() {
	local python=$1 kernels=$2 process tries=0
	shift 2
	PENSTOCK_KERNELS=$kernels "$@" "$files/penstock/penstockd" --memory 256M --idle-exit 600 >"$folder/daemon.log" 2>&1 &
	process=$!
	# shellcheck disable=SC2064 # this process, when the caller's subshell ends
	trap "kill $process 2>/dev/null || true" EXIT
	until "$@" "$files"/penstock-*.data/scripts/penstock status >"$folder/status" 2>&1; do
		tries=$((tries + 1))
		if [ "$tries" -gt 300 ] || ! kill -0 "$process" 2>/dev/null; then stop "no daemon: $(cat "$folder/daemon.log")"; fi
		sleep 0.2
	done
	PYTHONPATH=$files PENSTOCK_KERNELS=$kernels "$@" "$python" "$folder/epoch.py" "$images" || stop "the loader failed: $(cat "$folder/daemon.log")"
	"$@" "$files"/penstock-*.data/scripts/penstock stop >/dev/null
	wait "$process" || stop "the daemon ended with $?: $(cat "$folder/daemon.log")"
}

files=$(unpacked "$wheel")
emulated "$files"/penstock-*.data/scripts/penstock --version
emulated "$files/penstock/penstockd" --version
PYTHONPATH=$files emulated "$root/usr/bin/python3" -c 'import penstock; print("import penstock", penstock.__version__)'
sums=""
for kernels in c neon; do
	sum=$(epoch "$root/usr/bin/python3" "$kernels" emulated)
	echo "$name: aarch64, kernels $kernels: $sum"
	sums+="$sum"$'\n'
done
grep -m 1 io_uring "$folder/daemon.log" || true
if [ -n "$beside" ]; then
	files=$(unpacked "$(realpath "$beside")")
	sum=$(epoch /usr/bin/python3 "" env)
	echo "$name: $(uname -m): $sum"
	sums+="$sum"$'\n'
fi
[ "$(sort -u <<<"${sums%$'\n'}" | wc -l)" -eq 1 ] || stop "the same images differ"
echo "$name: all passed"
