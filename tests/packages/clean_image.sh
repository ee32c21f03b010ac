#!/usr/bin/env bash
# Checks the container image of a release, unpacks it without an engine, and runs it. By hand, as
# root; nothing is left behind.
#
#   tests/packages/clean_image.sh IMAGE IMAGES
#
# IMAGE is penstock-VERSION-ARCHITECTURE.oci.tar, IMAGES a folder of class folders with some images.
# oci_unpack.py checks sizes and digests, and unpacks the layers. What the image runs by default then
# runs in a chroot with a new process tree and without a network, as another user than root, and the
# command reads IMAGES through it. Where skopeo or podman is installed, they read the image too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 2 ] || [ ! -f "$1" ] || [ ! -d "$2" ]; then
	echo "usage: tests/packages/clean_image.sh IMAGE IMAGES" >&2
	exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "clean_image: unpacking owners, and chroot, need root" >&2
	exit 1
fi
image=$(realpath "$1") images=$(realpath "$2")
# shellcheck source=tests/packages/root.bash
source "$here/root.bash"

mkdir "$root"
python3 "$here/oci_unpack.py" "$image" "$root" >"$folder/config"
grep -E '^layer' "$folder/config"
sed '/^layer/d' "$folder/config" >"$folder/config.json"
# value EXPRESSION: of the configuration, which Python knows as `image`.
value() {
	python3 -c 'import json, sys; image = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$folder/config.json" "$1"
}
[ "$(value 'image["architecture"]')" = "$(dpkg --print-architecture)" ] ||
	stop "the image is for $(value 'image["architecture"]'), not for this machine"
version=$(value 'image["config"]["Labels"]["org.opencontainers.image.version"]')
IFS=$'\n' read -r -d '' -a settings < <(value '"\n".join(image["config"]["Env"])' && printf '\0')
IFS=$'\n' read -r -d '' -a command < <(value '"\n".join(image["config"]["Cmd"])' && printf '\0')
echo "$name: version $version runs: ${command[*]}"

# What an engine adds.
mount -t proc proc "$root/proc"
mknod -m 0666 "$root/dev/null" c 1 3
mknod -m 0666 "$root/dev/urandom" c 1 9
mkdir -m 0700 "$root/check"
mkdir -m 0700 "$root/check/run" "$root/check/home"
cp -r "$images" "$root/check/images"
user=12345
chown -R "$user:0" "$root/check"
settings+=(HOME=/check/home PENSTOCK_SOCKET=/check/run/penstock.sock)
within() {
	unshare --net chroot --userspec="$user:0" "$root" env -i "${settings[@]}" "$@"
}

within penstock --version
within "${command[@]}" --memory 256M --idle-exit 600 >"$folder/daemon.log" 2>&1 &
daemon=$!
tries=0
until within penstock status >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ] || ! kill -0 "$daemon" 2>/dev/null; then stop "no daemon: $(cat "$folder/daemon.log")"; fi
	sleep 0.1
done
within penstock status --json | grep -q "\"version\": *\"$version\"" || stop "the daemon is not of $version"
within penstock bench /check/images --batch-size 4 --seconds 1 | sed -n 1,2p
within penstock stop
wait "$daemon" || stop "the daemon ended with $?: $(cat "$folder/daemon.log")"
[ -s "$root/usr/include/penstock/penstock.h" ] || stop "the image has no penstock.h"
[ -s "$root/etc/ssl/certs/ca-certificates.crt" ] || stop "the image has no certificates"

if command -v skopeo >/dev/null; then
	skopeo inspect "oci-archive:$image" | grep -E '"(Created|Architecture)"'
fi
if command -v podman >/dev/null; then
	store=(podman --root "$folder/store" --runroot "$folder/runroot" --storage-driver vfs)
	"${store[@]}" load --quiet --input "$image"
	"${store[@]}" image inspect --format '{{.RepoTags}} {{.Architecture}} {{.Config.Cmd}}' "localhost/penstock:$version"
fi
echo "$name: all passed"
