# shellcheck shell=bash
# Sourced by scripts/wheel and packaging/image.sh.
#
#   mirror SUITE   prints where this machine's apt gets that suite from

mirror() {
	local found
	# shellcheck disable=SC2016 # apt-get's own variables
	found=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $1" "Created-By: Packages" | sed -n 1p)
	if [ -z "$found" ]; then
		echo "${0##*/}: apt on this machine has no source of $1, from which packages are taken (--main-only does without Debian's security updates)" >&2
		return 1
	fi
	echo "$found"
}
