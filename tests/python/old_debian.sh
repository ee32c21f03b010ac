#!/usr/bin/env bash
# Runs a wheel in an older Debian: makes a root of it in a temporary folder, with Debian's own python3 and python3-numpy, and lets
# wheel_check.py bench and load pictures there. By hand, as root; nothing is left behind.
#
#   tests/python/old_debian.sh WHEEL PICTURES [SUITE] [MIRROR]     bullseye (glibc 2.31, Python 3.9); debootstrap's own
#
# PICTURES is a folder of class folders; a few dozen will do. Needs debootstrap (scripts/install-deps wheel).
set -euo pipefail

if [ $# -lt 2 ] || [ ! -f "$1" ] || [ ! -d "$2" ]; then
	echo "usage: tests/python/old_debian.sh WHEEL PICTURES [SUITE] [MIRROR]" >&2
	exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "old_debian: debootstrap and chroot need root" >&2
	exit 1
fi
wheel=$1 pictures=$2 suite=${3:-bullseye} mirror=${4-}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
root=$folder/root

# The private daemon of the last loader goes ten seconds after it, and holds its /proc until then.
clean() {
	local tries=0
	while mountpoint -q "$root/proc" && ! umount "$root/proc" 2>/dev/null; do
		tries=$((tries + 1))
		if [ "$tries" -gt 30 ]; then
			echo "old_debian: $root/proc is in use: end what runs there, umount it and remove $folder" >&2
			return
		fi
		sleep 1
	done
	rm -rf --one-file-system "$folder"
}
trap clean EXIT

echo "old_debian: making a root of $suite"
debootstrap --variant=minbase --include=python3,python3-numpy "$suite" "$root" ${mirror:+"$mirror"} >"$folder/log" 2>&1 || {
	tail -n 20 "$folder/log" >&2
	exit 1
}
mount -t proc proc "$root/proc"
mkdir "$root/check"
cp "$wheel" "$here/wheel_check.py" "$root/check/"
cp -r "$pictures" "$root/check/pictures"
chroot "$root" sh -c 'ldd --version | head -n 1; python3 --version; python3 -c "import numpy; print(\"numpy\", numpy.__version__)"'
chroot "$root" python3 /check/wheel_check.py "/check/$(basename "$wheel")" --run /check/pictures
