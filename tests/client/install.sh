#!/bin/sh
# Installs the client into an empty place, builds the example against it by pkg-config, against the archive, and by
# find_package, and removes everything again. Where libpenstock_cuda was built, a program that uses it too.
#
#   install.sh CMAKE BUILD SOURCE CC
set -eu
cmake=$1 build=$2 source=$3 cc=$4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
say() { echo "install: $*"; }

"$cmake" --install "$build" --component client --prefix "$place/usr" >"$place/log" || { cat "$place/log"; exit 1; }
mv "$place/usr" "$place/moved" # an installed tree may be moved
pc=$(dirname "$(find "$place/moved" -name penstock.pc)")
lib=$(dirname "$pc")

if command -v pkg-config >"$place/pkg-config"; then
	export PKG_CONFIG_PATH="$pc"
	# shellcheck disable=SC2046 # flags are words
	"$cc" -std=c99 -Wall -Wextra -Werror -o "$place/shared" "$source/client/examples/read_batches.c" \
		$(pkg-config --cflags --libs penstock) "-Wl,-rpath,$lib"
	rc=0; "$place/shared" 2>"$place/usage" || rc=$?
	[ "$rc" = 2 ] && grep -q usage "$place/usage" || { say "the example built by pkg-config returns $rc"; exit 1; }
else
	say "no pkg-config: skipped"
fi

"$cc" -std=c99 -Wall -Wextra -Werror -I "$place/moved/include" -o "$place/static" \
	"$source/client/examples/read_batches.c" "$lib/libpenstock.a"
rc=0; "$place/static" 2>"$place/usage" || rc=$?
[ "$rc" = 2 ] || { say "the example with libpenstock.a returns $rc"; exit 1; }
"$place/static" --help | grep -q ^usage || { say "the example has no --help"; exit 1; }

# Says what is wrong before it looks for a driver, so that this runs anywhere.
cuda=
if [ -e "$lib/libpenstock_cuda.so" ]; then
	cuda=1
	cat >"$place/cuda.c" <<END
#include <penstock/cuda.h>
#include <stdio.h>
int main(void)
{
	struct penstock_cuda_options options;
	struct penstock_cuda *cuda;
	penstock_cuda_options_init(&options);
	options.prefetch = 1000;
	int r = penstock_cuda_attach(NULL, &options, &cuda);
	(void)puts(penstock_error());
	return r == 0;
}
END
	if command -v pkg-config >"$place/pkg-config"; then
		# shellcheck disable=SC2046 # flags are words
		"$cc" -std=c99 -Wall -Wextra -Werror -o "$place/cuda" "$place/cuda.c" \
			$(pkg-config --cflags --libs penstock-cuda) "-Wl,-rpath,$lib"
		"$place/cuda" | grep -q options.prefetch || { say "the CUDA program built by pkg-config does not refuse"; exit 1; }
	fi
	! readelf -d "$lib/libpenstock_cuda.so" | grep NEEDED | grep cuda ||
		{ say "libpenstock_cuda links the driver or the runtime"; exit 1; }
fi

mkdir "$place/project"
cat >"$place/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(penstock 0.1 REQUIRED)
add_executable(one $source/client/examples/read_batches.c)
target_link_libraries(one PRIVATE penstock::penstock)
add_executable(two $source/client/examples/read_batches.c)
target_link_libraries(two PRIVATE penstock::penstock_static)
END
[ -z "$cuda" ] || cat >>"$place/project/CMakeLists.txt" <<END
find_package(penstock 0.1 REQUIRED COMPONENTS cuda)
add_executable(three $place/cuda.c)
target_link_libraries(three PRIVATE penstock::penstock_cuda)
END
{ "$cmake" -S "$place/project" -B "$place/project/build" -DCMAKE_PREFIX_PATH="$place/moved" -DCMAKE_C_COMPILER="$cc" &&
	"$cmake" --build "$place/project/build"; } >"$place/log" 2>&1 || { cat "$place/log"; exit 1; }
for program in one two; do
	rc=0; "$place/project/build/$program" 2>"$place/usage" || rc=$?
	[ "$rc" = 2 ] || { say "the example built by find_package ($program) returns $rc"; exit 1; }
done

[ -z "$cuda" ] || "$place/project/build/three" | grep -q options.prefetch ||
	{ say "the CUDA program built by find_package does not refuse"; exit 1; }

mv "$place/moved" "$place/usr"
"$cmake" -DBUILD="$build" -DMANIFEST="$build/install_manifest_client.txt" -P "$source/cmake/PenstockUninstall.cmake" \
	>"$place/log" 2>&1 || { cat "$place/log"; exit 1; }
[ ! -e "$place/usr" ] || { say "left behind: $(find "$place/usr")"; exit 1; }
mkdir "$place/never"
"$cmake" -DBUILD="$place/never" -P "$source/cmake/PenstockUninstall.cmake" >"$place/log" 2>&1 && grep -q "nothing to remove" "$place/log" ||
	{ say "to uninstall what is not installed fails"; cat "$place/log"; exit 1; }
say "shared, static, pkg-config, CMake package, uninstall${cuda:+, CUDA}: good"
