#!/usr/bin/env bash
# Makes the container image of a release: Debian 12 with penstock's Debian packages. No container
# engine takes part. As root.
#
#   packaging/image.sh FILES OUTPUT VERSION [--main-only]
#
# FILES is a folder with the Debian packages. The first layer is Debian, with what the packages
# need; the second is what installing them changes. SOURCE_DATE_EPOCH is the time of the image.
# Debian's packages come from the mirror that this machine's apt has; the image does not name it and
# has an empty sources.list. --main-only leaves out Debian's security updates. packaging/oci.py writes
# the image. Needs mmdebstrap.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC1091 # found at run time
source "$here/mirror.bash"

usage() {
	echo "usage: packaging/image.sh FILES OUTPUT VERSION [--main-only]" >&2
	exit 2
}

stop() {
	echo "image: $*" >&2
	exit 1
}

security=yes
if [ "${4-}" = --main-only ]; then
	security=no
elif [ $# -eq 4 ]; then
	usage
fi
if [ $# -lt 3 ] || [ $# -gt 4 ] || [ ! -d "$1" ]; then usage; fi
files=$(cd "$1" && pwd) output=$2 version=$3
: "${SOURCE_DATE_EPOCH:?is the time of the image}"
[ "$(id -u)" -eq 0 ] || stop "a root folder of Debian can only be made by root"
architecture=$(dpkg --print-architecture)
packages=()
for name in libpenstock0 libpenstock-dev penstock; do
	packages+=("$files/${name}_$version-1_$architecture.deb")
done
for package in "${packages[@]}"; do
	[ -f "$package" ] || stop "$package is missing"
done

folder=$(mktemp -d -p "${TMPDIR:-/var/tmp}" penstock-image.XXXXXX)
trap 'rm -rf --one-file-system "$folder"' EXIT
# mktemp's folder is for its owner only, and apt's user reads packages below it.
chmod 0755 "$folder"

# logged COMMAND...: its output is shown only if it fails.
logged() {
	"$@" >"$folder/log" 2>&1 || {
		tail -n 20 "$folder/log" >&2
		stop "failed: $*"
	}
}

# clean ROOT: removes what differs from run to run, what an engine makes itself, and apt's lists and
# sources.
clean() {
	local place
	for place in dev proc run sys tmp var/log var/cache/apt var/cache/ldconfig var/lib/apt/lists; do
		find "$1/$place" -mindepth 1 -delete
	done
	: >"$1/etc/apt/sources.list"
	rm -f "$1"/var/lib/dpkg/*-old "$1"/var/cache/debconf/*-old "$1"/etc/{passwd,group,shadow,gshadow}- \
		"$1"/etc/{hostname,resolv.conf,machine-id} "$1/etc/.pwd.lock"
}

umask 022
suites=("deb $(mirror bookworm) bookworm main")
if [ "$security" = yes ]; then
	secure=$(mirror bookworm-security)
	suites+=("deb $secure bookworm-security main")
fi
needed=$(for package in "${packages[@]}"; do dpkg-deb --field "$package" Depends; done | tr ',' '\n' |
	sed -E 's/^ *([a-z0-9.+-]+).*/\1/' | grep -v penstock | LC_ALL=C sort -u | tr '\n' ',')
base=$folder/base full=$folder/full
printf '%s\n' "${suites[@]}" |
	logged mmdebstrap --mode=root --variant=apt --include="${needed}ca-certificates" bookworm "$base" -
cp -a "$base" "$full"
mkdir "$full/tmp/packages"
cp "${packages[@]}" "$full/tmp/packages/"
logged chroot "$full" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
	SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" sh -c 'dpkg --install /tmp/packages/*.deb'
clean "$base"
clean "$full"
"$here/oci.py" "$output" --name penstock --version "$version" --created "$SOURCE_DATE_EPOCH" \
	--architecture "$architecture" "$base" "$full"
