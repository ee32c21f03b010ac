# shellcheck shell=bash
# What the scripts of this folder share: a clean Debian in a temporary folder. Sourced.
#
#   make_root SUITE PACKAGES   makes the root and sets `root`; PACKAGES is debootstrap's list or ""
#   inside COMMAND...          runs it there, with the network, which only apt and pip may use
#   offline COMMAND...         the same without any network
#   paths                      every path that packages or programs may have written

name=${0##*/}
name=${name%.sh}
penstock=penstock # the command in the root
folder=$(mktemp -d -p "${TMPDIR:-/var/tmp}" penstock-root.XXXXXX)
root=$folder/root
# /root is the user; what pip reads of the environment (its index, its certificates) is passed on.
settings=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8)
while IFS= read -r setting; do
	settings+=("$setting")
done < <(env | grep -E '^(PIP_(CERT|INDEX_URL|DEFAULT_TIMEOUT|DISABLE_PIP_VERSION_CHECK)|https?_proxy|no_proxy)=' || true)

stop() {
	echo "$name: $*" >&2
	exit 1
}

# Processes in the root hold its /proc: daemons of their own end ten seconds after their last trainer.
clean() {
	local tries=0
	while [ ! -L "$root/proc" ] && mountpoint -q "$root/proc" && ! umount "$root/proc" 2>/dev/null; do
		tries=$((tries + 1))
		if [ "$tries" -gt 30 ]; then
			echo "$name: $root/proc is in use: end what runs there, umount it and remove $folder" >&2
			return
		fi
		sleep 1
	done
	rm -rf --one-file-system "$folder"
}
trap clean EXIT

# logged COMMAND...: its output is shown only if it fails.
logged() {
	"$@" >"$folder/log" 2>&1 || {
		tail -n 20 "$folder/log" >&2
		stop "failed: $*"
	}
}

inside() {
	chroot "$root" env -i "${settings[@]}" "$@"
}

offline() {
	unshare --net chroot "$root" env -i "${settings[@]}" "$@"
}

paths() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./check -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/cache \
		-o -path ./var/lib/apt -o -path ./var/log \) -prune -o -print | sort)
}

# Without a mirror, debootstrap takes its own.
make_root() {
	local suite=$1 packages=$2 compiler
	echo "$name: making a root of $suite"
	logged debootstrap --variant=minbase ${packages:+"--include=$packages"} "$suite" "$root" ${mirror:+"$mirror"}
	mount -t proc proc "$root/proc"
	mkdir "$root/check"
	if [ -n "${PIP_CERT-}" ]; then
		mkdir -p "$root/$(dirname "$PIP_CERT")"
		cp -L "$PIP_CERT" "$root/$PIP_CERT"
	fi
	for compiler in cc gcc clang c++; do
		! inside sh -c "command -v $compiler" || stop "the root has a compiler: $compiler"
	done
}

# run_daemon COMMAND...: in the background, until it answers. Its number is in `daemon`.
run_daemon() {
	offline "$@" >"$folder/daemon.log" 2>&1 &
	# shellcheck disable=SC2034 # for the caller
	daemon=$!
	local tries=0
	until offline "$penstock" status >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || stop "no daemon after 10 s: $(cat "$folder/daemon.log")"
		sleep 0.1
	done
}

# replaced OLD: ends the daemon of before, whose process is OLD, and waits for the one that a trainer
# which still runs starts in its place: it must be of the new release, which the command has.
replaced() {
	local new tries=0
	new=$(offline "$penstock" --version | sed -n '1s/.* //p')
	offline "$penstock" stop
	wait "$1" || stop "the daemon of before ended with $?"
	until offline "$penstock" status --json 2>/dev/null | grep -q "\"version\": *\"$new\""; do
		tries=$((tries + 1))
		[ "$tries" -lt 300 ] || stop "after 30 s the trainer has no daemon of $new: $(offline "$penstock" status 2>&1)"
		sleep 0.1
	done
}

# since BEGIN: milliseconds.
since() {
	echo $((($(date +%s%N) - $1) / 1000000))
}
