// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sim "github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// release is a library that the tests run, by its name and version.
type release string

const (
	glibc236 release = "glibc 2.36"
	glibc241 release = "glibc 2.41"
	musl123  release = "musl 1.2.3"
	musl125  release = "musl 1.2.5"
	goNet    release = "Go"
)

// simulators are the simulators of the releases.
var simulators = map[release]sim.Library{glibc236: sim.Glibc, glibc241: sim.Glibc, musl123: sim.Musl123, musl125: sim.Musl, goNet: sim.Go}

// compile builds a program of testdata with a library and returns its path. source is
// "glibc" or "musl" for the configuration, "ask" for lookups. The program of Go does both.
// compile must run before isolate.
func compile(t *testing.T, r release, source string) string {
	t.Helper()
	switch r {
	case glibc236:
		return build(t, "gcc", source+".c", "-lresolv")
	case glibc241:
		return build(t, "gcc", source+".c", glibc241Flags(t)...)
	case musl123:
		return build(t, "gcc", source+".c", "-specs", muslSpecs(t, debian12(t)), "-static")
	case musl125:
		return build(t, "gcc", source+".c", "-specs", muslSpecs(t, debian13(t)), "-static")
	default:
		return buildGo(t)
	}
}

// glibc241Flags are the flags of gcc for a program that runs with the loader and the
// libraries of Debian 13. It has the headers of this machine.
func glibc241Flags(t *testing.T) []string {
	loader := glob(t, debian13(t), "usr/lib/*-linux-gnu*/ld-linux*.so.*")
	return []string{"-lresolv", "-Wl,--dynamic-linker=" + loader, "-Wl,-rpath," + filepath.Dir(loader)}
}

// muslSpecs returns a specs file of gcc for the musl in dir.
func muslSpecs(t *testing.T, dir string) string {
	t.Helper()
	path := glob(t, dir, "usr/lib/*-linux-musl*/musl-gcc.specs")
	text := must.Get(os.ReadFile(path))(t)
	specs := filepath.Join(t.TempDir(), "specs")
	write(t, specs, strings.NewReplacer("/usr/lib/", dir+"/usr/lib/", "/usr/include/", dir+"/usr/include/").Replace(string(text)))
	return specs
}

// glob returns the file in dir that matches a pattern.
func glob(t *testing.T, dir, pattern string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("%s has no %s: %v", dir, pattern, err)
	}
	return list[0]
}

// unpack unpacks the packages that were downloaded.
const unpack = `
for package in *.deb; do dpkg-deb -x "$package" root; done`

// debian12 returns a directory with the musl of Debian 12, whatever the release of the machine is.
func debian12(t *testing.T) string {
	t.Helper()
	return debian.Download(t, "debian-bookworm-musl-1", "deb http://deb.debian.org/debian bookworm main",
		"apt-get download musl musl-dev"+unpack)
}

// debian13 returns a directory with the libraries of Debian 13. Both need 25 MB, and 12 seconds
// for the first time. The packages are the newest on the day of the download: Debian keeps their
// versions in a stable release, but adds fixes.
func debian13(t *testing.T) string {
	t.Helper()
	return debian.Download(t, "debian-trixie-libraries-1", "deb http://deb.debian.org/debian trixie main",
		"apt-get download libc6 musl musl-dev"+unpack)
}

// buildGo compiles the program of Go's package net, without cgo. It reads the configuration
// with an internal function, which the linker permits only with a flag.
func buildGo(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces")
	}
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-ldflags=-checklinkname=0", "-o", program, "./testdata/golang")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return program
}
