// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"sigs.k8s.io/yaml"
)

// build clones the commit that is checked out, and builds a release of it for platforms.
func build(t *testing.T, what string, platforms ...string) (r *release) {
	t.Helper()
	clone, out := filepath.Join(t.TempDir(), "clone"), t.TempDir()
	if text, err := exec.Command("git", "clone", "--quiet", "..", clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, text)
	}
	r = get(newRelease(t.Context(), clone, out, noRegistry, platforms))(t)
	for _, step := range builders[what] {
		succeed(t, step(t.Context(), r))
	}
	return r
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return get(os.ReadFile(path))(t)
}

// get returns the value of a call that must succeed.
func get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return value
	}
}

func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRelease_Reproducible builds a commit twice, in other directories.
func TestRelease_Reproducible(t *testing.T) {
	here := "linux/" + runtime.GOARCH
	first, second := build(t, "all", here), build(t, "all", here)
	sums := string(read(t, filepath.Join(first.out, checksumsFile)))
	if again := string(read(t, filepath.Join(second.out, checksumsFile))); again != sums {
		t.Errorf("checksums differ:\n%s\n%s", sums, again)
	}
	for _, suffix := range []string{".deb", ".rpm", ".tar.gz", ".spdx.json", "image.tar", "install-agent.yaml"} {
		if !strings.Contains(sums, suffix+"\n") {
			t.Errorf("no %s in:\n%s", suffix, sums)
		}
	}
	testImage(t, first)
	testArchive(t, first)
	testChart(t, first)
	testManifests(t, first)
	testPackages(t, first)
}

// imageIndexes returns the index of the layout, and the one of the image for all platforms, its first
// manifest.
func imageIndexes(t *testing.T, r *release) (all, platforms v1.ImageIndex) {
	t.Helper()
	all = get(layout.ImageIndexFromPath(filepath.Join(r.out, "image")))(t)
	manifest := get(all.IndexManifest())(t)
	platforms = get(all.ImageIndex(manifest.Manifests[0].Digest))(t)
	return all, platforms
}

// testImage checks what a runtime and a policy of a cluster see.
func testImage(t *testing.T, r *release) {
	index, platforms := imageIndexes(t, r)
	manifest := get(index.IndexManifest())(t)
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != r.imageName()+":"+r.imageTag() {
		t.Errorf("image name %q", got)
	}
	images, err := partial.FindImages(platforms, func(v1.Descriptor) bool { return true })
	if err != nil || len(images) != 1 {
		t.Fatalf("%d images, %v", len(images), err)
	}
	config := get(images[0].ConfigFile())(t)
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.User != imageUser ||
		config.Config.Labels["org.opencontainers.image.revision"] != r.revision {
		t.Errorf("configuration %+v", config)
	}
	files := imageFiles(t, images[0])
	pool, roots := x509.NewCertPool(), 0
	for rest := files["etc/ssl/certs/ca-certificates.crt"]; ; roots++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert := get(x509.ParseCertificate(block.Bytes))(t)
		pool.AddCert(cert)
	}
	if roots < 100 {
		t.Errorf("%d root certificates", roots)
	}
	if !bytes.Equal(files["dnsconfigurer"], read(t, r.binaries[0].path)) {
		t.Error("the program in the image is not the one that was built")
	}
	testReferrer(t, index, manifest, images[0])
	testImageArchive(t, r, manifest.Manifests[0].Digest)
}

// testImageArchive checks that image.tar has the image and nothing else: "ctr images import
// --digests" fails at other manifests.
func testImageArchive(t *testing.T, r *release, digest v1.Hash) {
	t.Helper()
	archive := read(t, filepath.Join(r.out, "image.tar"))
	var index v1.IndexManifest
	succeed(t, json.Unmarshal(untar(t, bytes.NewReader(archive))["index.json"], &index))
	if len(index.Manifests) != 1 || index.Manifests[0].Digest != digest {
		t.Errorf("manifests in image.tar: %+v, want only %s", index.Manifests, digest)
	}
}

// emulators are the programs that run the binaries of other Linux architectures, and the
// architectures as they are named in ELF.
var emulators = map[string]struct {
	program string
	machine elf.Machine
}{
	"amd64": {"qemu-x86_64-static", elf.EM_X86_64},
	"arm64": {"qemu-aarch64-static", elf.EM_AARCH64},
}

// maxImage is the largest size of the image for a platform, in bytes as a registry transfers it. Pipelines pull it for
// each job.
const maxImage = 15_000_000

// TestImage_OtherArchitecture builds the image for both architectures, and runs the program of the
// one that this machine does not have in an emulator.
func TestImage_OtherArchitecture(t *testing.T) {
	arch := "arm64"
	if runtime.GOARCH == arch {
		arch = "amd64"
	}
	install(t, emulators[arch].program, "qemu-user-static")
	r := build(t, "image", "linux/amd64", "linux/arm64")
	_, platforms := imageIndexes(t, r)
	manifest := get(platforms.IndexManifest())(t)
	var listed []string
	for _, m := range manifest.Manifests {
		listed = append(listed, m.Platform.String())
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(listed, want) {
		t.Errorf("the image is for %q, want %q", listed, want)
	}
	images, err := partial.FindImages(platforms, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Architecture == arch })
	if err != nil || len(images) != 1 {
		t.Fatalf("%d images for %s, %v", len(images), arch, err)
	}
	program := filepath.Join(t.TempDir(), "dnsconfigurer")
	succeed(t, os.WriteFile(program, imageFiles(t, images[0])["dnsconfigurer"], 0o755))
	file := get(elf.Open(program))(t)
	defer file.Close()
	if file.Machine != emulators[arch].machine || file.Section(".interp") != nil {
		t.Errorf("the program is for %s, want %s; section of a dynamic linker: %v", file.Machine,
			emulators[arch].machine, file.Section(".interp"))
	}
	out, err := exec.Command(emulators[arch].program, program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), r.version) {
		t.Errorf("version for %s: %v, want %s in the output\n%s", arch, err, r.version, out)
	}
	all := get(partial.FindImages(platforms, func(v1.Descriptor) bool { return true }))(t)
	for i, img := range all {
		m := get(img.Manifest())(t)
		size := m.Config.Size
		for _, layer := range m.Layers {
			size += layer.Size
		}
		t.Logf("%s: %d bytes compressed", listed[i], size)
		if size > maxImage {
			t.Errorf("the image for %s has %d bytes, want at most %d", listed[i], size, maxImage)
		}
	}
}

func imageFiles(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	layers := get(img.Layers())(t)
	files := map[string][]byte{}
	for _, layer := range layers {
		content := get(layer.Uncompressed())(t)
		for name, data := range untar(t, content) {
			files[name] = data
		}
	}
	return files
}

func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			t.Errorf("%s is neither a file nor a directory", h.Name)
		}
		files[h.Name] = get(io.ReadAll(r))(t)
	}
}

// testReferrer checks that an SBOM refers to the image, and that it is a valid one.
func testReferrer(t *testing.T, index v1.ImageIndex, manifest *v1.IndexManifest, img v1.Image) {
	bom := get(index.Image(manifest.Manifests[1].Digest))(t)
	bomManifest := get(bom.Manifest())(t)
	digest := get(img.Digest())(t)
	if bomManifest.Subject == nil || bomManifest.Subject.Digest != digest {
		t.Errorf("the SBOM refers to %+v, want %s", bomManifest.Subject, digest)
	}
	layers := get(bom.Layers())(t)
	content := get(layers[0].Uncompressed())(t)
	doc := get(spdxjson.Read(content))(t)
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	if len(doc.Packages) < 20 ||
		!slices.ContainsFunc(doc.Relationships, func(r *spdx.Relationship) bool { return r.Relationship == "DESCRIBES" }) {
		t.Errorf("%d packages, %d relationships", len(doc.Packages), len(doc.Relationships))
	}
}

// formats are the formats of programs, by operating system, and how to read the architecture of a file.
var formats = map[string]func(*testing.T, []byte) string{
	"linux": func(t *testing.T, program []byte) string {
		file := get(elf.NewFile(bytes.NewReader(program)))(t)
		return map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[file.Machine]
	},
	"darwin": func(t *testing.T, program []byte) string {
		file := get(macho.NewFile(bytes.NewReader(program)))(t)
		return map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[file.Cpu]
	},
	"windows": func(t *testing.T, program []byte) string {
		file := get(pe.NewFile(bytes.NewReader(program)))(t)
		return map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64"}[file.Machine]
	},
}

// TestArchive_Platforms checks that each archive has programs for its platform. It builds a small
// program instead of dnsconfigurer, which takes minutes for all platforms.
func TestArchive_Platforms(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	succeed(t, os.MkdirAll(filepath.Join(root, "cmd", "dnsconfigurer"), 0o755))
	for name, text := range map[string]string{
		"go.mod":                    "module example.com/small\n",
		"cmd/dnsconfigurer/main.go": "package main\n\nfunc main() {}\n",
	} {
		succeed(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	for _, args := range []string{"init --quiet", "add .", "-c user.name=test -c user.email=test@example.com commit --quiet -m test"} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, text)
		}
	}
	r := get(newRelease(t.Context(), root, out, noRegistry, strings.Split(allPlatforms, ",")))(t)
	var built []string
	for _, b := range r.binaries {
		platform := b.os + "/" + b.arch
		built = append(built, platform)
		program := get(b.program())(t)
		name := r.archiveName(b)
		license := entry{name: "LICENSE", mode: 0o644, data: []byte("text")}
		succeed(t, r.writeArchive(name+".tar.gz", name, []entry{program, license}))
		checkProgram(t, filepath.Join(out, name+".tar.gz"), b)
	}
	if got := strings.Join(built, ","); got != allPlatforms {
		t.Errorf("built %s, want %s", got, allPlatforms)
	}
	succeed(t, buildPlugin(t.Context(), r))
	testPlugin(t, r)
}

// testPlugin checks the manifest of the plugin as krew does (internal/index/validation, internal/download and
// internal/installation), because krew itself cannot be built here: a dependency is missing.
func testPlugin(t *testing.T, r *release) {
	t.Helper()
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	succeed(t, yaml.UnmarshalStrict(read(t, filepath.Join(r.out, "dnsconfig.yaml")), &m))
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "dnsconfig" ||
		!regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(m.Spec.Version) || m.Spec.ShortDescription == "" ||
		strings.Contains(m.Spec.ShortDescription, "\n") || len(m.Spec.Platforms) != len(r.binaries) {
		t.Errorf("manifest %+v", m)
	}
	for i, p := range m.Spec.Platforms {
		b := r.binaries[i]
		archive := read(t, filepath.Join(r.out, r.archiveName(b)+".tar.gz"))
		zipped := get(gzip.NewReader(bytes.NewReader(archive)))(t)
		installed := map[string]bool{}
		files := untar(t, zipped)
		for _, f := range p.Files {
			if f.To == "." && len(files[f.From]) > 0 {
				installed[path.Base(f.From)] = true
			}
		}
		if p.Selector.MatchLabels["os"] != b.os || p.Selector.MatchLabels["arch"] != b.arch || len(p.Selector.MatchLabels) != 2 ||
			p.URI != homepage+"/releases/download/"+r.imageTag()+"/"+r.archiveName(b)+".tar.gz" ||
			p.SHA256 != fmt.Sprintf("%x", sha256.Sum256(archive)) || !installed[p.Bin] || !installed["LICENSE"] || len(p.Files) != 2 {
			t.Errorf("platform %+v, files %v", p, installed)
		}
	}
}

// checkProgram checks that the program that an archive unpacks is the one of a platform.
func checkProgram(t *testing.T, archive string, b binary) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", archive, err, out)
	}
	if got := formats[b.os](t, read(t, filepath.Join(dir, b.programName()))); got != b.arch {
		t.Errorf("%s: the program is for %q", archive, got)
	}
}

// testArchive checks that an archive has one directory with everything in it.
func testArchive(t *testing.T, r *release) {
	name := "dnsconfigurer_" + r.imageTag() + "_linux_" + runtime.GOARCH
	zipped := get(gzip.NewReader(bytes.NewReader(read(t, filepath.Join(r.out, name+".tar.gz")))))(t)
	files := untar(t, zipped)
	for _, want := range []string{"dnsconfigurer", "LICENSE", "README.md", "CHANGELOG.md",
		"completions/bash/dnsconfigurer", "completions/powershell/dnsconfigurer.ps1",
		"man/man1/dnsconfigurer.1", "man/man1/dnsconfigurer-config-check.1"} {
		if len(files[name+"/"+want]) == 0 {
			t.Errorf("%s.tar.gz: no %s", name, want)
		}
	}
	page := string(files[name+"/man/man1/dnsconfigurer-render.1"])
	if !regexp.MustCompile(`(?s)^\.TH DNSCONFIGURER-RENDER 1 .*\.SH NAME\ndnsconfigurer\\-render ` +
		`\\- Print .*\.SH SYNOPSIS\n.*\.SH EXAMPLES\n.*\.SH FLAGS\n`).MatchString(page) {
		t.Errorf("manual page:\n%s", page)
	}
}

// testChart checks the version of the chart and of the image that it runs.
func testChart(t *testing.T, r *release) {
	version := strings.TrimPrefix(r.version, "v")
	zipped := get(gzip.NewReader(bytes.NewReader(read(t, filepath.Join(r.out, "dnsconfigurer-"+version+".tgz")))))(t)
	files := untar(t, zipped)
	chart := string(files["dnsconfigurer/Chart.yaml"])
	if !strings.Contains(chart, "\nversion: "+version+"\n") || !strings.Contains(chart, "\nappVersion: "+r.imageTag()+"\n") {
		t.Errorf("Chart.yaml:\n%s", chart)
	}
	policy := read(t, filepath.Join(r.root, "deploy", "autopath", "policy.yaml"))
	if !bytes.Equal(files["dnsconfigurer/files/autopath.yaml"], policy) {
		t.Error("files/autopath.yaml is not deploy/autopath/policy.yaml")
	}
}

// TestChart_PreviousVersion checks that the chart of an older version does not stay: commands of the
// documentation name the chart by a pattern.
func TestChart_PreviousVersion(t *testing.T) {
	r := &release{root: "..", out: t.TempDir()}
	for _, r.version = range []string{"v0.0.1", "v0.0.2"} {
		succeed(t, buildChart(t.Context(), r))
	}
	charts, err := filepath.Glob(filepath.Join(r.out, "dnsconfigurer-*.tgz"))
	if want := []string{filepath.Join(r.out, "dnsconfigurer-0.0.2.tgz")}; err != nil || !slices.Equal(charts, want) {
		t.Errorf("charts %q, %v, want %q", charts, err, want)
	}
}

// testManifests checks that the manifests for kubectl run the image of the release, and that they
// do not claim to be helm's.
func testManifests(t *testing.T, r *release) {
	index := get(layout.ImageIndexFromPath(filepath.Join(r.out, "image")))(t)
	manifest := get(index.IndexManifest())(t)
	image := r.imageName() + "@" + manifest.Manifests[0].Digest.String()
	for file, want := range map[string]struct{ kinds, images int }{
		"install-cluster-dns.yaml": {6, 1},
		"install-node-cache.yaml":  {4, 1},
		"install-policies.yaml":    {8, 0},
		"install-agent.yaml":       {6, 2},
	} {
		text := string(read(t, filepath.Join(r.out, file)))
		if got := strings.Count(text, "\nkind: "); got != want.kinds {
			t.Errorf("%s has %d objects, want %d", file, got, want.kinds)
		}
		if got := strings.Count(text, "image: \""+image+"\"\n"); got != want.images || strings.Count(text, "image: ") != want.images {
			t.Errorf("%s has %d times the image %s, want %d", file, got, image, want.images)
		}
		if strings.Contains(strings.ToLower(text), "helm") {
			t.Errorf("%s mentions helm:\n%s", file, text)
		}
	}
}

// install installs a Debian package if its program is missing.
func install(t *testing.T, program, name string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skipf("%s is not installed, and only root can install it", name)
	}
	aptGet := func(args ...string) *exec.Cmd { // by way of flock, because apt-get does not wait for its locks
		cmd := exec.Command("flock", append([]string{os.TempDir(), "apt-get"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		return cmd
	}
	args := []string{"install", "-y", "--no-install-recommends", name}
	if aptGet(args...).Run() == nil {
		return
	}
	_ = aptGet("update").Run() // install reports the error
	if out, err := aptGet(args...).CombinedOutput(); err != nil {
		t.Fatalf("apt-get install %s: %v\n%s", name, err, out)
	}
}

// testPackages checks the file lists with the tools of Debian and RPM systems.
func testPackages(t *testing.T, r *release) {
	want := []string{
		"/usr/bin/dnsconfigurer", "/usr/bin/kubectl-dnsconfig", "/etc/dnsconfigurer/shim.yaml", "/etc/dnsconfigurer/agent.yaml",
		"/usr/lib/systemd/system/dnsconfigurer-shim.service", "/usr/lib/systemd/system/dnsconfigurer-shim.socket",
		"/usr/lib/systemd/system/dnsconfigurer-bypass.service", "/usr/lib/systemd/system/dnsconfigurer-agent.service",
		"/usr/share/man/man1/dnsconfigurer.1.gz", "/usr/share/doc/dnsconfigurer/copyright",
	}
	for suffix, list := range map[string][]string{".deb": {"dpkg-deb", "--fsys-tarfile"}, ".rpm": {"rpm", "-qpl"}} {
		install(t, list[0], map[string]string{"dpkg-deb": "dpkg", "rpm": "rpm"}[list[0]])
		matches, err := filepath.Glob(filepath.Join(r.out, "*"+suffix))
		if err != nil || len(matches) != 1 {
			t.Fatalf("%s: %q, %v", suffix, matches, err)
		}
		out := get(exec.Command(list[0], append(list[1:], matches[0])...).Output())(t)
		for _, path := range want {
			if !bytes.Contains(out, []byte(path)) {
				t.Errorf("%s: no %s", matches[0], path)
			}
		}
		if suffix == ".rpm" {
			testRPMRemoval(t, matches[0])
		}
	}
}

// testRPMRemoval installs an rpm below a directory and removes it. rpm removes only directories that
// belong to the package.
func testRPMRemoval(t *testing.T, path string) {
	t.Helper()
	root := t.TempDir()
	for _, args := range [][]string{{"-i", path}, {"-e", "dnsconfigurer"}} {
		cmd := exec.Command("rpm", append([]string{"--root", root, "--nodeps", "--noscripts"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		out := get(exec.Command("find", root, "-path", "*/dnsconfigurer*").Output())(t)
		license := filepath.Join(root, "usr/share/licenses/dnsconfigurer/LICENSE")
		if installed := args[0] == "-i"; strings.Contains(string(out), license) != installed || !installed && len(out) > 0 {
			t.Errorf("files after rpm %s:\n%s", args[0], out)
		}
	}
}

func TestEscapeRoff(t *testing.T) {
	if got, want := escapeRoff(".a\n'b\n-c\\d"), "\\&.a\n\\&'b\n\\-c\\ed"; got != want {
		t.Errorf("escapeRoff = %q, want %q", got, want)
	}
}
