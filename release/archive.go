// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// What packages and images say about the program. The summary is the synopsis of the deb, of less
// than 80 characters (Debian policy 3.4.1).
const (
	summary  = "Kubernetes pod DNS: agent, CRI shim, cluster DNS, node cache, admission"
	homepage = "https://github.com/dnsconfigurer/dnsconfigurer"
	license  = "Apache-2.0"
)

// buildArchives writes an archive and an SBOM for each platform.
func buildArchives(ctx context.Context, r *release) error {
	shared, err := r.documents(ctx)
	if err != nil {
		return err
	}
	if err := r.removePrevious("*.tar.gz", "*.spdx.json"); err != nil {
		return err
	}
	if err := r.writeInstaller(); err != nil {
		return err
	}
	for _, b := range r.binaries {
		program, err := b.program()
		if err != nil {
			return err
		}
		name := r.archiveName(b)
		if err := r.writeArchive(name+".tar.gz", name, append([]entry{program}, shared...)); err != nil {
			return err
		}
		bom, err := r.sbom(b)
		if err != nil {
			return err
		}
		if err := r.write(name+".spdx.json", bom); err != nil {
			return err
		}
	}
	return nil
}

// writeInstaller writes the script that downloads, verifies and installs an archive of this release.
func (r *release) writeInstaller() error {
	script, err := os.ReadFile(filepath.Join(r.root, "release", "install.sh"))
	if err != nil {
		return err
	}
	return r.write("install.sh", bytes.ReplaceAll(script, []byte("@VERSION@"), []byte(r.imageTag())))
}

// archiveName returns the name of the archive for the platform of b, without its ending.
func (r *release) archiveName(b binary) string {
	return fmt.Sprintf("dnsconfigurer_%s_%s_%s", r.imageTag(), b.os, b.arch)
}

// program returns the program as an entry of an archive. Archives have no links: krew unpacks only regular
// files and directories.
func (b binary) program() (entry, error) {
	data, err := os.ReadFile(b.path)
	return entry{name: b.programName(), mode: 0o755, data: data}, err
}

func (b binary) programName() string {
	if b.os == "windows" {
		return "dnsconfigurer.exe"
	}
	return "dnsconfigurer"
}

// writeArchive writes entries below a directory of the archive's name.
func (r *release) writeArchive(file, dir string, entries []entry) error {
	below := make([]entry, len(entries))
	for i, e := range entries {
		e.name = dir + "/" + e.name
		below[i] = e
	}
	data, err := tarEntries(below, r.time)
	if err != nil {
		return err
	}
	zipped, err := compress(data, r.time)
	if err != nil {
		return err
	}
	return r.write(file, zipped)
}

func compress(data []byte, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w.ModTime = modified
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// documents returns the files that are the same for every platform.
func (r *release) documents(ctx context.Context) ([]entry, error) {
	var entries []entry
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
	}
	generated, err := r.generated(ctx)
	return append(entries, generated...), err
}

// completionFiles are the shells and the names under which they look for completions.
var completionFiles = []struct{ shell, name string }{
	{"bash", "dnsconfigurer"},
	{"zsh", "_dnsconfigurer"},
	{"fish", "dnsconfigurer.fish"},
	{"powershell", "dnsconfigurer.ps1"},
}

// generated returns what the program prints about itself: completions and manual pages.
func (r *release) generated(ctx context.Context) ([]entry, error) {
	var entries []entry
	for _, c := range completionFiles {
		text, err := r.output(ctx, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: "completions/" + c.shell + "/" + c.name, mode: 0o644, data: text})
	}
	pages, err := r.manualPages(ctx)
	return append(entries, pages...), err
}

// output returns what the program prints to standard output.
func (r *release) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.host, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("dnsconfigurer %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// tarDirectory returns an archive of the files below dir.
func tarDirectory(dir string, modified time.Time) ([]byte, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return tarEntries(entries, modified)
}
