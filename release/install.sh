#!/bin/sh
# Copyright The dnsconfigurer Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs dnsconfigurer, and the kubectl plugin "kubectl dnsconfig": sh install.sh [-d DIRECTORY] [VERSION]
#
# VERSION is a release such as v0.2.0, and by default the one that this file belongs to. DIRECTORY is by default
# ~/.local/bin, and /usr/local/bin for root. DNSCONFIGURER_MIRROR replaces the address below which the releases are.
set -eu

repository=https://github.com/dnsconfigurer/dnsconfigurer

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# fetch NAME writes a file of the release to $work.
fetch() {
	url=${DNSCONFIGURER_MIRROR:-$repository/releases/download}/$version/$1
	if have curl; then
		curl -fsSL -o "$work/$1" "$url"
	elif have wget; then
		wget -q -O "$work/$1" "$url"
	else
		fail "curl or wget is required"
	fi || fail "cannot download $url"
}

sha256() {
	if have sha256sum; then
		sha256sum "$1"
	elif have shasum; then
		shasum -a 256 "$1"
	else
		fail "sha256sum or shasum is required"
	fi
}

# fetch_verified NAME fetches a file, and compares it with the signed list of checksums.
fetch_verified() {
	fetch "$1"
	fetch checksums.txt
	if have cosign; then
		fetch checksums.txt.sigstore.json
		signer=$repository/.github/workflows/release.yml@refs/tags/$version
		cosign verify-blob --bundle "$work/checksums.txt.sigstore.json" --certificate-identity "$signer" \
			--certificate-oidc-issuer https://token.actions.githubusercontent.com "$work/checksums.txt" >&2 ||
			fail "cosign (version 3 or newer) finds no signature of checksums.txt by $signer"
	else
		echo "install.sh: without cosign, the signature of checksums.txt is not verified" >&2
	fi
	want=$(sed -n "s/^\([0-9a-f]*\)  $1\$/\1/p" "$work/checksums.txt")
	got=$(sha256 "$work/$1")
	[ "${got%% *}" = "$want" ] || fail "SHA-256 of $1 is ${got%% *}, want ${want:-a line in checksums.txt}"
}

main() {
	[ "$(id -u)" = 0 ] && directory=/usr/local/bin || directory=${HOME:?}/.local/bin
	[ "${1:-}" != -d ] || { directory=${2:?DIRECTORY is missing} && shift 2; }
	version=${1:-@VERSION@}
	case $version in *[!a-zA-Z0-9.-]* | [!v]*) fail "VERSION is \"$version\", want a release such as v0.2.0" ;; esac
	system=$(uname -s | tr '[:upper:]' '[:lower:]')
	machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
	name=dnsconfigurer_${version}_${system}_$machine
	work=$(mktemp -d)
	new=$directory/.dnsconfigurer.$$
	trap 'rm -rf "$work" "$new"' EXIT
	fetch_verified "$name.tar.gz"
	tar -xzf "$work/$name.tar.gz" -C "$work"
	mkdir -p "$directory" && cp "$work/$name/dnsconfigurer" "$new" && mv -f "$new" "$directory/dnsconfigurer" &&
		ln -sf dnsconfigurer "$directory/kubectl-dnsconfig" || fail "cannot write to $directory: choose another one with -d"
	echo "installed dnsconfigurer $version and kubectl-dnsconfig in $directory"
	case :$PATH: in *:"$directory":*) ;; *) echo "install.sh: $directory is not in PATH" >&2 ;; esac
}

main "$@" # the last line, so that an incomplete download of this file does nothing
