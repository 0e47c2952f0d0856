// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// maintainer is the field of that name in packages.
const maintainer = "The dnsconfigurer Authors <dnsconfigurer@example.com>"

// packageRelease is the version of the packaging of one version.
const packageRelease = "1"

// packageDescription follows Debian policy 5.6.13: a synopsis, then the extended text.
const packageDescription = summary + `
The CRI shim sits between the kubelet and the container runtime, and gives each
pod the resolv.conf that follows from its dnsPolicy and dnsConfig. The package
changes nothing on the node until "dnsconfigurer-shim.socket" is enabled and the
kubelet is configured with its path.`

// packageFiles are the files that do not depend on the platform or on the version: the
// source in the repository, the path on the node, and its type for nfpm.
var packageFiles = []files.Content{
	{Source: "deploy/systemd/dnsconfigurer-shim.service", Destination: "/usr/lib/systemd/system/dnsconfigurer-shim.service"},
	{Source: "deploy/systemd/dnsconfigurer-bypass.service", Destination: "/usr/lib/systemd/system/dnsconfigurer-bypass.service"},
	{Source: "deploy/systemd/dnsconfigurer-agent.service", Destination: "/usr/lib/systemd/system/dnsconfigurer-agent.service"},
	{Source: "deploy/systemd/dnsconfigurer-shim.socket", Destination: "/usr/lib/systemd/system/dnsconfigurer-shim.socket"},
	{Source: "deploy/systemd/kubelet.service.d/20-dnsconfigurer.conf",
		Destination: "/usr/share/dnsconfigurer/kubelet.service.d/20-dnsconfigurer.conf"},
	{Source: "deploy/systemd/shim.yaml", Destination: "/etc/dnsconfigurer/shim.yaml", Type: files.TypeConfigNoReplace},
	{Source: "deploy/systemd/agent.yaml", Destination: "/etc/dnsconfigurer/agent.yaml", Type: files.TypeConfigNoReplace},
	{Source: "README.md", Destination: "/usr/share/doc/dnsconfigurer/README.md"},
	{Source: "CHANGELOG.md", Destination: "/usr/share/doc/dnsconfigurer/CHANGELOG.md"},
	{Source: "release/packaging/copyright", Destination: "/usr/share/doc/dnsconfigurer/copyright"},
}

// rpmFiles are what only the rpm has. rpm removes no directory that does not belong to a package, as
// dpkg does, and its systems have no /usr/share/common-licenses, to which the file copyright refers.
var rpmFiles = []files.Content{
	{Destination: "/etc/dnsconfigurer", Type: files.TypeDir},
	{Destination: "/usr/share/dnsconfigurer", Type: files.TypeDir},
	{Destination: "/usr/share/dnsconfigurer/kubelet.service.d", Type: files.TypeDir},
	{Destination: "/usr/share/doc/dnsconfigurer", Type: files.TypeDir},
	{Destination: "/usr/share/licenses/dnsconfigurer", Type: files.TypeDir},
	{Source: "LICENSE", Destination: "/usr/share/licenses/dnsconfigurer/LICENSE", Type: files.TypeRPMLicense},
}

// completionPaths are the directories of completions by shell and packager.
var completionPaths = map[string]map[string]string{
	"bash": {"deb": "/usr/share/bash-completion/completions/", "rpm": "/usr/share/bash-completion/completions/"},
	"zsh":  {"deb": "/usr/share/zsh/vendor-completions/", "rpm": "/usr/share/zsh/site-functions/"},
	"fish": {"deb": "/usr/share/fish/vendor_completions.d/", "rpm": "/usr/share/fish/vendor_completions.d/"},
}

// A packager writes packages of one format.
type packager interface {
	nfpm.Packager
	ConventionalFileName(*nfpm.Info) string
}

// buildPackages writes a deb and an rpm for each Linux platform.
func buildPackages(ctx context.Context, r *release) error {
	generated, err := r.generated(ctx)
	if err != nil {
		return err
	}
	if err := r.removePrevious("*.deb", "*.rpm"); err != nil {
		return err
	}
	for _, b := range r.binaries {
		if b.os != "linux" {
			continue
		}
		if err := r.buildPackage(b, "deb", deb.Default, generated); err != nil {
			return fmt.Errorf("deb for %s: %w", b.arch, err)
		}
		if err := r.buildPackage(b, "rpm", rpm.DefaultRPM, generated); err != nil {
			return fmt.Errorf("rpm for %s: %w", b.arch, err)
		}
	}
	return nil
}

func (r *release) buildPackage(b binary, format string, p packager, generated []entry) error {
	info, err := r.packageInfo(b, format, generated)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.Package(info, &out); err != nil {
		return err
	}
	return r.write(p.ConventionalFileName(info), out.Bytes())
}

// packageInfo returns what a package has.
func (r *release) packageInfo(b binary, format string, generated []entry) (*nfpm.Info, error) {
	stage := filepath.Join(r.out, "binaries", "stage-"+format)
	contents, err := r.stage(stage, format, generated)
	if err != nil {
		return nil, err
	}
	contents = append(contents,
		&files.Content{Source: b.path, Destination: "/usr/bin/dnsconfigurer", FileInfo: r.fileInfo(0o755)},
		&files.Content{Source: "dnsconfigurer", Destination: "/usr/bin/kubectl-dnsconfig",
			Type: files.TypeSymlink, FileInfo: r.fileInfo(0o777)})
	contents = append(contents, r.contents(packageFiles)...)
	if format == "rpm" {
		contents = append(contents, r.contents(rpmFiles)...)
	}
	script := func(name string) string { return filepath.Join(r.root, "release", "packaging", name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "dnsconfigurer", Arch: b.arch, Platform: b.os, Version: r.version, Release: packageRelease,
		Section: "admin", Priority: "optional", Maintainer: maintainer, Description: packageDescription,
		Homepage: homepage, License: license,
		MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  nfpm.Scripts{PostInstall: script("postinstall"), PreRemove: script("preremove"), PostRemove: script("postremove")},
			Deb:      nfpm.Deb{Compression: "xz"}, // dpkg before 1.21.18 cannot read zstd
			RPM:      nfpm.RPM{BuildHost: "localhost", Summary: summary},
		},
	})
	return info, nil
}

// contents returns a list of files of the repository, and of directories, as nfpm wants it.
func (r *release) contents(list []files.Content) (contents files.Contents) {
	for _, f := range list {
		mode := os.FileMode(0o755)
		if f.Type != files.TypeDir {
			f.Source, mode = filepath.Join(r.root, f.Source), 0o644
		}
		f.FileInfo = r.fileInfo(mode)
		contents = append(contents, &f)
	}
	return contents
}

// stage writes the generated files for a packager, and returns their contents.
func (r *release) stage(dir, format string, generated []entry) (files.Contents, error) {
	var contents files.Contents
	for _, e := range generated {
		destination, data := "", e.data
		switch kind, rest, _ := strings.Cut(e.name, "/"); kind {
		case "man":
			zipped, err := compress(e.data, r.time)
			if err != nil {
				return nil, err
			}
			destination, data = "/usr/share/"+e.name+".gz", zipped
		case "completions":
			shell, name, _ := strings.Cut(rest, "/")
			if completionPaths[shell] == nil { // no package has PowerShell's
				continue
			}
			destination = completionPaths[shell][format] + name
		}
		path := filepath.Join(dir, filepath.FromSlash(destination))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return nil, err
		}
		contents = append(contents, &files.Content{Source: path, Destination: destination, FileInfo: r.fileInfo(0o644)})
	}
	return contents, nil
}

func (r *release) fileInfo(mode os.FileMode) *files.ContentFileInfo {
	return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}
}
