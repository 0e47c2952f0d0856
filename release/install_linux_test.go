// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// releasePage serves the files of a release as the code host does, below /VERSION/. A request for damaged files gets
// others: they are below /changed/VERSION/ and /truncated/VERSION/.
func releasePage(t *testing.T, r *release) *httptest.Server {
	mux := http.NewServeMux()
	files := http.FileServer(http.Dir(r.out))
	prefix := "/" + r.imageTag() + "/"
	mux.Handle(prefix, http.StripPrefix(prefix, files))
	damaged := func(damage func(w http.ResponseWriter, data []byte)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !strings.HasSuffix(req.URL.Path, ".tar.gz") {
				files.ServeHTTP(w, req)
				return
			}
			damage(w, read(t, filepath.Join(r.out, filepath.Base(req.URL.Path))))
		})
	}
	mux.Handle("/changed"+prefix, http.StripPrefix("/changed"+prefix, damaged(func(w http.ResponseWriter, data []byte) {
		data[len(data)/2]++
		w.Write(data)
	})))
	mux.Handle("/truncated"+prefix, http.StripPrefix("/truncated"+prefix, damaged(func(w http.ResponseWriter, data []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data[:len(data)/2]) // the server then closes the connection
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// cosignStub is a cosign that accepts a bundle with the text "signed", and prints its arguments otherwise.
const cosignStub = `#!/bin/sh
[ "$1 $2" = "verify-blob --bundle" ] && [ "$(cat "$3")" = signed ] || { echo "cosign refuses: $*"; exit 1; }
[ "$4 $5 $6 $7" = "--certificate-identity $SIGNER --certificate-oidc-issuer https://token.actions.githubusercontent.com" ] &&
	[ -f "$8" ] || { echo "wrong arguments: $*"; exit 1; }
`

// basicTools are what install.sh needs to unpack and to install.
const basicTools = "cp cat id ln mkdir mktemp mv rm sed tar gzip tr uname "

// tools returns a directory for PATH with programs of this machine; those of applets are BusyBox's. cosign is the stub.
func tools(t *testing.T, programs string, applets bool) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range strings.Fields(programs) {
		path, err := exec.LookPath(name)
		if applets {
			path, err = exec.LookPath("busybox")
		}
		if name == "cosign" {
			path, err = filepath.Join(dir, ".cosign"), nil
			os.WriteFile(path, []byte(cosignStub), 0o755) // a symbolic link that leads nowhere fails the test
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestDownload builds the archive of a release once, for what downloads it.
func TestDownload(t *testing.T) {
	install(t, "busybox", "busybox-static")
	r := build(t, "chart", "linux/"+runtime.GOARCH)
	succeed(t, errors.Join(buildArchives(t.Context(), r), writeChecksums(t.Context(), r)))
	page := releasePage(t, r)
	t.Run("installer", func(t *testing.T) { testInstaller(t, r, page) })
	t.Run("pipelines", func(t *testing.T) { testPipelines(t, r, page) })
}

// testInstaller runs install.sh as a user without rights, with dash and with nothing but BusyBox.
func testInstaller(t *testing.T, r *release, server *httptest.Server) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run programs as another user")
	}
	install(t, "dash", "dash")
	install(t, "curl", "curl")
	version := r.imageTag()
	archive := "dnsconfigurer_" + version + "_linux_" + runtime.GOARCH + ".tar.gz"
	const basic, curl, wget = basicTools, basicTools + "curl sha256sum", basicTools + "wget sha256sum"
	const signed = curl + " cosign"
	bundle := filepath.Join(r.out, "checksums.txt.sigstore.json")

	for _, tt := range []struct {
		name, shell, tools, mirror, arguments string
		bundle                                string // the signature; "": the page has none
		want                                  string // part of the output; the program is installed if it begins with "installed"
	}{
		{"dash", "dash", curl, "", "", "", "installed dnsconfigurer " + version},
		{"busybox", "busybox", wget, "", "", "", "installed dnsconfigurer " + version},
		{"wget-shasum", "dash", basic + "wget shasum perl", "", version, "", "installed dnsconfigurer " + version},
		{"signed", "dash", signed, "", "", "signed", "installed dnsconfigurer " + version},
		{"signed-by-other", "dash", signed, "", "", "other", "finds no signature of checksums.txt by https://"},
		{"unsigned", "dash", signed, "", "", "", "/" + version + "/checksums.txt.sigstore.json"},
		{"no-version", "dash", curl, "", "v99.0.0", "", "cannot download " + server.URL + "/v99.0.0/"},
		{"no-version", "busybox", wget, "", "v99.0.0", "", "cannot download " + server.URL + "/v99.0.0/"},
		{"bad-version", "dash", curl, "", "latest", "", `VERSION is "latest", want a release such as v0.2.0`},
		{"changed", "dash", curl, "/changed", "", "", "SHA-256 of " + archive + " is "},
		{"changed", "busybox", wget, "/changed", "", "", "SHA-256 of " + archive + " is "},
		{"truncated", "dash", curl, "/truncated", "", "", "cannot download " + server.URL + "/truncated/"},
		{"truncated", "busybox", wget, "/truncated", "", "", ""}, // versions differ in the message
		{"no-sha256sum", "dash", basic + "curl", "", "", "", "sha256sum or shasum is required"},
		{"no-downloader", "dash", basic + "sha256sum", "", "", "", "curl or wget is required"},
		{"unwritable", "dash", curl, "", "-d /usr/local/bin", "", "cannot write to /usr/local/bin: choose another one with -d"},
	} {
		t.Run(tt.name+"-"+tt.shell, func(t *testing.T) {
			os.Remove(bundle)
			if tt.bundle != "" {
				succeed(t, os.WriteFile(bundle, []byte(tt.bundle), 0o644))
			}
			home := t.TempDir()
			succeed(t, errors.Join(os.Chown(home, 65534, 65534), os.Chmod(filepath.Dir(home), 0o755)))
			shell, applets := []string{"dash"}, tt.shell == "busybox"
			if applets {
				shell = []string{"busybox", "sh"}
			}
			path := get(exec.LookPath(shell[0]))(t)
			args := append(shell[1:], append([]string{"-s", "--"}, strings.Fields(tt.arguments)...)...)
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Dir = home
			cmd.Stdin = bytes.NewReader(read(t, filepath.Join(r.out, "install.sh")))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			cmd.Env = []string{"HOME=" + home, "PATH=" + tools(t, tt.tools, applets), "TMPDIR=" + home,
				"DNSCONFIGURER_MIRROR=" + server.URL + tt.mirror,
				"SIGNER=" + homepage + "/.github/workflows/release.yml@refs/tags/" + version}
			out, err := cmd.CombinedOutput()
			installed := strings.HasPrefix(tt.want, "installed")
			if (err == nil) != installed || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, want %q in\n%s", err, tt.want, out)
			}
			unsigned := strings.Contains(string(out), "signature of checksums.txt is not verified")
			if installed && unsigned == (tt.bundle != "") {
				t.Errorf("with the bundle %q:\n%s", tt.bundle, out)
			}
			checkInstalled(t, home, installed, r.version)
		})
	}
}

// TestInstaller_Cut checks that a part of install.sh does nothing: "curl | sh" runs what has arrived.
func TestInstaller_Cut(t *testing.T) {
	script := read(t, "install.sh")
	for end := range bytes.LastIndex(script, []byte("\nmain ")) {
		if script[end] != '\n' {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh")
		cmd.Dir, cmd.Env, cmd.Stdin = t.TempDir(), []string{"HOME=."}, bytes.NewReader(script[:end])
		cmd.Run() // fails where a function is cut
		if files, err := os.ReadDir(cmd.Dir); err != nil || len(files) > 0 {
			t.Errorf("the first %d bytes made %v, %v", end, files, err)
		}
	}
}

// checkInstalled checks what is in the home directory after the script: both names of the program, or nothing.
func checkInstalled(t *testing.T, home string, want bool, version string) {
	t.Helper()
	out, err := exec.Command("find", home, "-mindepth", "1", "-not", "-type", "d", "-printf", "%P ").Output()
	if files := strings.Fields(string(out)); err != nil || (len(files) == 2) != want || (len(files) == 0) == want {
		t.Errorf("files in the home directory: %q, %v", files, err)
	}
	for _, name := range []string{"dnsconfigurer", "kubectl-dnsconfig"} {
		out, err := exec.Command(filepath.Join(home, ".local", "bin", name), "version").CombinedOutput()
		if got := err == nil && strings.Contains(string(out), version); got != want {
			t.Errorf("%s version: %v, %s", name, err, out)
		}
	}
}
