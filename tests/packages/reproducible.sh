#!/usr/bin/env bash
# Makes the files of a release twice and compares their bytes. By hand.
#
#   tests/packages/reproducible.sh [--only PARTS] [--main-only] [--first FOLDER] [COMMIT]
#
# The second run is in a clone in another folder, at least a minute later, with another umask, time
# zone, language, home folder and number of jobs. PARTS and --main-only are those of scripts/release;
# FOLDER has the files of an earlier run of it with the same commit (HEAD), which is then the first.
# Prints the sums, and each file that differs.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

usage() {
	sed -n 's/^#   tests/usage: tests/p' "$0" >&2
	exit 2
}

stop() {
	echo "reproducible: $*" >&2
	exit 1
}

options=(--untagged) first=""
while [ $# -gt 0 ]; do
	case "$1" in
	--only)
		[ -n "${2-}" ] || usage
		options+=(--only "$2")
		shift
		;;
	--main-only) options+=(--main-only) ;;
	--first)
		[ -s "${2-}/SHA256SUMS" ] || stop "${2-} has no SHA256SUMS: expected the files of scripts/release"
		first=$(cd "$2" && pwd)
		shift
		;;
	-*) usage ;;
	*) break ;;
	esac
	shift
done
[ $# -le 1 ] || usage
commit=$(git -C "$root" rev-parse --verify --quiet "${1:-HEAD}^{commit}") || stop "${1:-HEAD} is not a commit"
folder=$(mktemp -d -p "${TMPDIR:-/var/tmp}" penstock-reproducible.XXXXXX)
trap 'rm -rf --one-file-system "$folder"' EXIT

if [ -z "$first" ]; then
	first=$folder/first
	"$root/scripts/release" "${options[@]}" "$commit" "$first"
	sleep 60
fi

second=$folder/second
clone=$folder/elsewhere/another-folder
git clone --quiet --no-hardlinks "$root" "$clone"
git -C "$clone" checkout --quiet --detach "$commit"
mkdir "$folder/home"
(
	umask 027
	# The first run may take objects from a cache; this one compiles everything.
	unset CMAKE_C_COMPILER_LAUNCHER
	HOME=$folder/home TZ=Asia/Tokyo LC_ALL=C.UTF-8 CMAKE_BUILD_PARALLEL_LEVEL=1 "$clone/scripts/release" "${options[@]}" "$commit" "$second"
)

echo "reproducible: the first run, and the second (only lines that differ, if any):"
cat "$first/SHA256SUMS"
if ! diff "$first/SHA256SUMS" "$second/SHA256SUMS"; then
	kept=$(mktemp -d -p "${TMPDIR:-/var/tmp}" penstock-differs.XXXXXX)
	cp "$first"/* "$kept/"
	mkdir "$kept/second"
	cp "$second"/* "$kept/second/"
	stop "the files above differ; both runs' files are kept in $kept"
fi
echo "reproducible: $(wc -l <"$first/SHA256SUMS") files of commit ${commit:0:12}: the same bytes twice"
