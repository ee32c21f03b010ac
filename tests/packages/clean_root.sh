#!/usr/bin/env bash
# Installs the Debian packages of a release in a clean Debian, uses them, removes and purges them,
# and compares what is left with what was there before; with OLD, upgrades from that wheel while its
# daemon and a trainer run. By hand, as root; nothing is left behind.
#
#   tests/packages/clean_root.sh FOLDER IMAGES [--old OLD] [--suite SUITE] [--mirror MIRROR]
#
# FOLDER has the files of scripts/release, IMAGES class folders with some images. The root is SUITE
# (bookworm) by debootstrap, without a compiler; only apt and pip have a network. OLD is a wheel of
# release 0.1, which had no Debian packages, made on the same release of Debian (see clean_wheel.sh).
# Prints the time from `apt install` to the first line of `penstock bench`. Where apt refuses the
# packages, prints what it says.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	sed -n 's/^#   tests/usage: tests/p' "$0" >&2
	exit 2
}

suite=bookworm old="" mirror="" words=()
while [ $# -gt 0 ]; do
	case "$1" in
	--old | --suite | --mirror)
		[ -n "${2-}" ] || usage
		printf -v "${1#--}" %s "$2"
		shift
		;;
	-*) usage ;;
	*) words+=("$1") ;;
	esac
	shift
done
if [ "${#words[@]}" -ne 2 ] || [ ! -d "${words[0]}" ] || [ ! -d "${words[1]}" ]; then usage; fi
if [ "$(id -u)" -ne 0 ]; then
	echo "clean_root: debootstrap and chroot need root" >&2
	exit 1
fi
files=${words[0]} images=${words[1]}
# shellcheck source=tests/packages/root.bash
source "$here/root.bash"

make_root "$suite" "${old:+python3-venv,ca-certificates}"
cp "$files"/*.deb "$here/upgrade.py" "$root/check/"
rm -f "$root"/check/*-dbgsym_*.deb
cp -r "$images" "$root/check/images"
# What the packages need is installed first: the time below is that of penstock's own packages.
inside apt-get -qq update
needed=$(for package in "$root"/check/*.deb; do dpkg-deb --field "$package" Depends; done | tr ',' '\n' |
	sed -E 's/^ *([a-z0-9.+-]+).*/\1/' | grep -vE '^(lib)?penstock|^$' | sort -u)
# shellcheck disable=SC2086 # a list of words
if ! inside apt-get -qq install --no-install-recommends $needed >"$folder/log" 2>&1; then
	echo "clean_root: $suite does not have what the packages need:"
	tail -n 20 "$folder/log"
	if inside sh -c 'apt-get -qq install --no-install-recommends /check/*.deb' >"$folder/log" 2>&1; then
		stop "apt installed the packages without what they need"
	fi
	tail -n 20 "$folder/log"
	stop "$suite: apt refuses the packages, as above"
fi

if [ -n "$old" ]; then
	cp "$old" "$root/check/"
	logged inside python3 -m venv /check/venv
	logged inside apt-get -qq install --no-install-recommends libwebp7 libtiff6
	logged inside /check/venv/bin/pip install "/check/${old##*/}"
fi
paths >"$folder/before"
if [ -n "$old" ]; then
	penstock=/check/venv/bin/penstock
	run_daemon /check/venv/bin/penstockd --memory 256M
	before=$daemon
	offline /check/venv/bin/python /check/upgrade.py begin /check/images /check/notes
	offline env PENSTOCKD=/usr/bin/penstockd /check/venv/bin/python /check/upgrade.py run /check/images /check/notes >"$folder/trainer" 2>&1 &
	trainer=$!
	penstock=penstock
fi

begin=$(date +%s%N)
logged inside sh -c 'apt-get -qq install --no-install-recommends /check/*.deb'
installed=$(since "$begin")
offline penstock bench /check/images --batch-size 4 --seconds 1 | while IFS= read -r line; do
	echo "$(since "$begin") $line"
done >"$folder/bench"
sed -n '1,3s/^[0-9]* //p' "$folder/bench"
echo "clean_root: apt install $installed ms, the first line of bench after $(sed -n '1s/ .*//p' "$folder/bench") ms (with 1 s of measuring)"

if [ -n "$old" ]; then
	kill -0 "$before" || stop "installing ended the running daemon"
	echo "clean_root: the daemon of before still runs:"
	offline python3 /check/upgrade.py end /check/images /check/notes
	replaced "$before"
	echo "clean_root: the new daemon, with the files of before:"
	offline python3 /check/upgrade.py end /check/images /check/notes
	touch "$root/check/notes.enough"
	wait "$trainer" || stop "the trainer failed: $(cat "$folder/trainer")"
	cat "$folder/trainer"
	offline penstock stop
fi

offline penstock --version
offline python3 - <<'PYTHON'
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
offline penstockd --check-config --config /etc/penstock/penstock.yaml || stop "the installed configuration is refused"

# A half-removed installation. The private daemon of the loader above ends ten seconds after it.
sleep 12
logged inside dpkg --force-depends --remove penstock
if offline penstock --version 2>"$folder/refused"; then stop "the command is still there"; fi
if offline python3 -c 'import penstock; penstock.Loader("/check/images", batch_size=4, image_size=64)' 2>"$folder/refused"; then
	stop "without penstockd, a loader was opened"
fi
tail -n 1 "$folder/refused"
grep -q penstockd "$folder/refused" || stop "the error does not name penstockd"

logged inside sh -c 'apt-get -qq purge penstock libpenstock0 libpenstock-dev python3-penstock penstock-doc'
rm -rf "$root/root/.cache/penstock" "$root/root/.local/state/penstock" # the user's own, which docs/install.md lists
rmdir --ignore-fail-on-non-empty "$root/root/.cache" "$root/root/.local/state" "$root/root/.local" 2>/dev/null || true
paths >"$folder/after"
if ! diff "$folder/before" "$folder/after"; then
	stop "a purge left what is listed above (>), or took what was there before (<)"
fi
echo "clean_root: $suite: all passed; the purge left nothing"
