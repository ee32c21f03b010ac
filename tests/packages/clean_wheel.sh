#!/usr/bin/env bash
# Installs a wheel in a clean Debian as the quickstart says, uses it, removes it, and compares what is
# left with what was there before; with OLD, upgrades from that wheel while its daemon and a trainer
# run. By hand, as root; nothing is left behind.
#
#   tests/packages/clean_wheel.sh WHEEL IMAGES [--old OLD] [--suite SUITE] [--mirror MIRROR]
#
# IMAGES is a folder of class folders, OLD a wheel of release 0.1 made on the same release of Debian
# (`pip wheel --no-deps ./client/python` of its commit, which tests/versions/run.py names). The root is
# SUITE (bookworm) by debootstrap, with Python and without a compiler. Only apt and pip have a network.
# Prints the time from `pip install` to the first batch, with NumPy fetched and with NumPy there.
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
if [ "${#words[@]}" -ne 2 ] || [ ! -f "${words[0]}" ] || [ ! -d "${words[1]}" ]; then usage; fi
if [ "$(id -u)" -ne 0 ]; then
	echo "clean_wheel: debootstrap and chroot need root" >&2
	exit 1
fi
wheel=${words[0]} images=${words[1]}
# shellcheck source=tests/packages/root.bash
source "$here/root.bash"

make_root "$suite" python3,python3-venv,ca-certificates
cp "$wheel" "$here/upgrade.py" "$root/check/"
wheel=/check/${wheel##*/}
cp -r "$images" "$root/check/images"
# What 0.1 was linked with: it had no wheel for other machines.
if [ -n "$old" ]; then
	cp "$old" "$root/check/"
	old=/check/${old##*/}
	logged inside apt-get -qq update
	logged inside apt-get -qq install --no-install-recommends libjpeg62-turbo libpng16-16 libxxhash0 liburing2 libyaml-0-2 libjansson4 \
		libmicrohttpd12 libncursesw6 libseccomp2 libsystemd0 libwebp7 libtiff6 libzstd1
fi
inside python3 --version
paths >"$folder/clean"

# What pip refuses by the name alone: another architecture, a newer glibc, musl, a later Python.
logged inside python3 -m venv /check/venv
other=aarch64
[[ "$wheel" != *_aarch64.whl ]] || other=x86_64
this=${wheel%.whl}
this=${this##*_2_28_}
for tag in "cp39-abi3-manylinux_2_28_$other" "cp39-abi3-manylinux_2_99_$this" "cp39-abi3-musllinux_1_2_$this" "cp399-abi3-manylinux_2_28_$this"; do
	version=${wheel##*/penstock-}
	wrong=/check/penstock-${version%%-*}-$tag.whl
	cp "$root$wheel" "$root$wrong"
	if inside /check/venv/bin/pip install --no-deps "$wrong" >"$folder/log" 2>&1; then stop "pip installed ${wrong##*/}"; fi
	grep "is not a supported wheel on this platform" "$folder/log" || stop "pip said: $(cat "$folder/log")"
	rm "$root$wrong"
done

# The quickstart's lines.
cat >"$root/check/first.py" <<'PYTHON'
import penstock
for images, labels in penstock.Loader("/check/images", batch_size=4, image_size=224, seed=0):
    print("first batch", images.shape, images.dtype, labels.tolist())
    break
PYTHON
venv=/check/venv
penstock=$venv/bin/penstock
for numpy in "fetched by pip" "there before"; do
	logged inside python3 -m venv --clear "$venv"
	[ "$numpy" = "fetched by pip" ] || logged inside "$venv/bin/pip" install --quiet numpy
	begin=$(date +%s%N)
	logged inside "$venv/bin/pip" install --no-cache-dir "$wheel"
	installed=$(since "$begin")
	offline "$venv/bin/python" /check/first.py
	echo "clean_wheel: pip install $installed ms, first batch after $(since "$begin") ms, NumPy $numpy"
done
offline "$penstock" --version
offline "$penstock" bench /check/images --batch-size 4 --seconds 1 | head -n 3
sleep 12 # the loader's private daemon ends ten seconds after it

# Half of it.
mv "$root$venv/bin/penstockd" "$root/check/aside"
if offline "$penstock" bench /check/images --batch-size 4 2>"$folder/refused"; then stop "bench ran without penstockd"; fi
cat "$folder/refused"
grep -q penstockd "$folder/refused" || stop "the command does not name penstockd"
mv "$root/check/aside" "$root$venv/bin/penstockd"
package=$(inside "$venv/bin/python" -c 'import penstock; print(penstock.__path__[0])')
mv "$root$package/penstockd" "$root/check/aside"
if offline env PATH=/usr/bin:/bin "$venv/bin/python" /check/first.py 2>"$folder/refused"; then stop "a loader ran without penstockd"; fi
tail -n 1 "$folder/refused"
grep -q penstockd "$folder/refused" || stop "the loader does not name penstockd"
mv "$root/check/aside" "$root$package/penstockd"

logged inside "$venv/bin/pip" uninstall --yes penstock
left=$(cd "$root$venv" && find . -path '*penstock*' -print)
[ -z "$left" ] || stop "pip uninstall left: $left"

if [ -n "$old" ]; then
	python=$venv/bin/python
	logged inside python3 -m venv --clear "$venv"
	logged inside "$venv/bin/pip" install "$old" # with NumPy
	run_daemon "$venv/bin/penstockd" --memory 256M
	before=$daemon
	offline "$python" /check/upgrade.py begin /check/images /check/notes
	offline "$python" /check/upgrade.py run /check/images /check/notes >"$folder/trainer" 2>&1 &
	trainer=$!
	sleep 3
	logged inside "$venv/bin/pip" install --upgrade "$wheel"
	inside "$venv/bin/pip" list | grep penstock
	kill -0 "$before" || stop "installing ended the running daemon"
	echo "clean_wheel: the daemon of before still runs:"
	offline "$python" /check/upgrade.py end /check/images /check/notes
	replaced "$before"
	echo "clean_wheel: the new daemon, with the files of before:"
	offline "$python" /check/upgrade.py end /check/images /check/notes
	touch "$root/check/notes.enough"
	wait "$trainer" || stop "the trainer failed: $(cat "$folder/trainer")"
	cat "$folder/trainer"
	offline "$penstock" stop
	logged inside "$venv/bin/pip" uninstall --yes penstock
	left=$(cd "$root$venv" && find . -path '*penstock*' -print)
	[ -z "$left" ] || stop "pip uninstall left, after an upgrade: $left"
fi

rm -rf "$root/root/.cache/penstock" "$root/root/.local/state/penstock" # the user's own, which docs/install.md lists
rm -rf "$root/root/.cache/pip" # pip's
rmdir --ignore-fail-on-non-empty "$root/root/.cache" "$root/root/.local/state" "$root/root/.local" 2>/dev/null || true
paths >"$folder/after"
diff "$folder/clean" "$folder/after" || stop "something is left, as listed above (>), or gone (<)"
echo "clean_wheel: $suite: all passed; nothing is left"
