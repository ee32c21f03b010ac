#!/usr/bin/env bash
# Installs the Debian packages of a release in a clean Debian, uses them, removes and purges them,
# and compares what is left with what was there before. By hand, as root; nothing is left behind.
#
#   tests/packages/clean_root.sh FOLDER IMAGES [SUITE] [MIRROR]
#
# FOLDER has the files of scripts/release, IMAGES class folders with some images. The root is SUITE
# (bookworm) by debootstrap, without a compiler. Prints the time from `apt install` to the first
# line of `penstock bench`.
set -euo pipefail

if [ $# -lt 2 ] || [ ! -d "$1" ] || [ ! -d "$2" ]; then
	echo "usage: tests/packages/clean_root.sh FOLDER IMAGES [SUITE] [MIRROR]" >&2
	exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "clean_root: debootstrap and chroot need root" >&2
	exit 1
fi
files=$1 images=$2 suite=${3:-bookworm} mirror=${4:-http://deb.debian.org/debian}
folder=$(mktemp -d)
root=$folder/root

clean() {
	local tries=0
	while mountpoint -q "$root/proc" && ! umount "$root/proc" 2>/dev/null; do
		tries=$((tries + 1))
		if [ "$tries" -gt 30 ]; then
			echo "clean_root: $root/proc is in use: end what runs there, umount it and remove $folder" >&2
			return
		fi
		sleep 1
	done
	rm -rf --one-file-system "$folder"
}
trap clean EXIT

stop() {
	echo "clean_root: $*" >&2
	exit 1
}

inside() {
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

# Every path that packages or programs may have written, without the package manager's own records.
paths() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./check -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/cache \
		-o -path ./var/lib/apt -o -path ./var/log \) -prune -o -print | sort)
}

echo "clean_root: making a root of $suite"
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$folder/log" 2>&1 || {
	tail -n 20 "$folder/log" >&2
	exit 1
}
mount -t proc proc "$root/proc"
mkdir "$root/check"
cp "$files"/*.deb "$root/check/"
rm -f "$root"/check/*-dbgsym_*.deb
cp -r "$images" "$root/check/images"
# What the packages need is installed first: the time below is that of penstock's own packages.
inside apt-get -qq update
needed=$(for package in "$root"/check/*.deb; do dpkg-deb --field "$package" Depends; done | tr ',' '\n' |
	sed -E 's/^ *([a-z0-9.+-]+).*/\1/' | grep -vE '^(lib)?penstock|^$' | sort -u)
# shellcheck disable=SC2086 # a list of words
inside apt-get -qq install --no-install-recommends $needed >"$folder/log" 2>&1 || {
	tail -n 20 "$folder/log" >&2
	exit 1
}
paths >"$folder/before"

begin=$(date +%s%N)
inside sh -c 'apt-get -qq install --no-install-recommends /check/*.deb' >"$folder/log" 2>&1 || {
	tail -n 20 "$folder/log" >&2
	exit 1
}
inside penstock bench /check/images --batch-size 4 --seconds 1 >"$folder/bench"
head -n 3 "$folder/bench"
echo "clean_root: installed, and benchmarked for 1 s, after $((($(date +%s%N) - begin) / 1000000)) ms"

inside penstock --version
inside python3 - <<'PYTHON'
import importlib.metadata
import penstock
assert importlib.metadata.version("penstock") == penstock.__version__, importlib.metadata.version("penstock")
for images, labels in penstock.Loader("/check/images", batch_size=4, image_size=64, seed=0):
    print("first batch", images.shape, images.dtype, labels.tolist())
    break
PYTHON
for file in usr/share/man/man1/penstock.1.gz usr/share/bash-completion/completions/penstock usr/share/zsh/vendor-completions/_penstock \
	usr/share/fish/vendor_completions.d/penstock.fish lib/systemd/system/penstockd.service \
	usr/lib/systemd/user/penstockd.service etc/penstock/penstock.yaml usr/include/penstock/penstock.h; do
	[ -s "$root/$file" ] || stop "$file is not installed"
done
grep -q '^ExecStart=/usr/bin/penstockd ' "$root/lib/systemd/system/penstockd.service" ||
	stop "the unit does not start /usr/bin/penstockd"
inside penstockd --check-config --config /etc/penstock/penstock.yaml || stop "the installed configuration is refused"

# A half-removed installation. The private daemon of the loader above ends ten seconds after it.
sleep 12
inside dpkg --force-depends --remove penstock >"$folder/log" 2>&1
if inside python3 -c 'import penstock; penstock.Loader("/check/images", batch_size=4, image_size=64)' 2>"$folder/refused"; then
	stop "without penstockd, a loader was opened"
fi
tail -n 1 "$folder/refused"
grep -q penstockd "$folder/refused" || stop "the error does not name penstockd"

inside sh -c 'apt-get -qq purge penstock libpenstock0 libpenstock-dev python3-penstock penstock-doc' >"$folder/log" 2>&1 || {
	tail -n 20 "$folder/log" >&2
	exit 1
}
rm -rf "$root/root/.cache/penstock" "$root/root/.local/state/penstock" # the user's own, which docs/install.md lists
rmdir --ignore-fail-on-non-empty "$root/root/.cache" "$root/root/.local/state" "$root/root/.local" 2>/dev/null || true
paths >"$folder/after"
if ! diff "$folder/before" "$folder/after"; then
	stop "a purge left what is listed above (>), or took what was there before (<)"
fi
echo "clean_root: $suite: all passed; the purge left nothing"
