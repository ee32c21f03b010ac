#!/bin/sh
# Uninstalling removes all that installing made, and nothing else: no folder that was there before, and
# none with other files in it.
#
#   uninstall.sh CMAKE BUILD SOURCE
set -eu
cmake=$1 build=$2 source=$3
place=$(mktemp -d)
log=$place.log
trap 'rm -rf "$place" "$log"' EXIT
fail() { echo "uninstall: $*"; exit 1; }

both() {
	for component in client daemon; do
		"$cmake" --install "$build" --component "$component" --prefix "$1" >"$log" || { cat "$log"; exit 1; }
	done
}
remove() {
	"$cmake" -DBUILD="$build" -DMANIFEST="$build/install_manifest_$1.txt" -P "$source/cmake/PenstockUninstall.cmake" \
		>"$log" 2>&1 || { cat "$log"; exit 1; }
}
remove_both() { remove client; remove daemon; }

# A prefix that does not exist, in a folder that does not exist either; installed twice.
both "$place/new/prefix"
[ -x "$place/new/prefix/bin/penstockd" ] || fail "it is not installed"
both "$place/new/prefix"
remove_both
[ -z "$(ls -A "$place")" ] || fail "left: $(find "$place" | tail -n +2)"

# Each component by itself: the folders that both use go with the second.
both "$place/new"
remove daemon
[ -e "$place/new/include/penstock/penstock.h" ] || fail "the client went with the daemon"
[ ! -e "$place/new/bin" ] || fail "the daemon's folder bin is left"
remove client
[ -z "$(ls -A "$place")" ] || fail "left: $(find "$place" | tail -n +2)"

# Folders of before stay, although they are empty; so does a folder with a file of somebody else's.
mkdir -p "$place/old/share/man/man1" "$place/old/include/penstock" "$place/old/share/penstock"
both "$place/old"
echo mine >"$place/old/share/penstock/grafana/.mine"
remove_both
left=$(cd "$place/old" && find . | sort | tr '\n' ' ')
[ "$left" = ". ./include ./include/penstock ./share ./share/man ./share/man/man1 ./share/penstock ./share/penstock/grafana ./share/penstock/grafana/.mine " ] ||
	fail "of folders of before these are left: $left"

# A folder that was removed and made again by somebody else between two installations.
both "$place/again"
rm -r "$place/again"
mkdir "$place/again"
both "$place/again"
remove_both
[ "$(find "$place/again")" = "$place/again" ] || fail "of a folder that was made again: $(find "$place/again")"

# DESTDIR, as packages are built; the same path without it is another folder.
mkdir -p "$place/prefix/bin"
export DESTDIR="$place/staged"
both "$place/prefix"
[ -x "$place/staged$place/prefix/bin/penstock" ] || fail "DESTDIR is ignored"
remove_both
[ ! -e "$place/staged" ] || fail "left in DESTDIR: $(find "$place/staged")"
[ -d "$place/prefix/bin" ] || fail "a folder outside DESTDIR was removed"
echo "uninstall: everything that was installed, and nothing else: good"
