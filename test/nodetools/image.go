// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// The images. Each has busybox. Those of a C library also have static programs of it: tell
// prints how the library reads /etc/resolv.conf, ask looks up a name. The last one has
// glibc-ask and musl-ask.
const (
	PauseImage     = "localhost/pause:1"
	GlibcImage     = "localhost/glibc:1"
	MuslImage      = "localhost/musl:1"
	LibrariesImage = "localhost/libraries:1"
)

// sleep is the command of containers.
var sleep = []string{"/bin/busybox", "sleep", "1000000"}

// image is an image with a single layer.
type image struct {
	name  string
	files map[string]string // paths outside by paths inside
}

// BuildImages writes the images into one archive and returns its path.
func BuildImages(t testing.TB, dir string) string {
	t.Helper()
	glibc, musl := filepath.Join(dir, "glibc"), filepath.Join(dir, "musl")
	Compile(t, "gcc", "glibc.c", glibc, "-DWHOLE")
	Compile(t, "gcc", "ask.c", glibc+"-ask", "-lresolv")
	Compile(t, "musl-gcc", "musl.c", musl)
	Compile(t, "musl-gcc", "ask.c", musl+"-ask")
	text := must.Get(archive([]image{
		{PauseImage, map[string]string{"bin/busybox": busybox()}},
		{GlibcImage, map[string]string{"bin/busybox": busybox(), "bin/tell": glibc, "bin/ask": glibc + "-ask"}},
		{MuslImage, map[string]string{"bin/busybox": busybox(), "bin/tell": musl, "bin/ask": musl + "-ask"}},
		{LibrariesImage, map[string]string{"bin/busybox": busybox(), "bin/glibc-ask": glibc + "-ask", "bin/musl-ask": musl + "-ask"}},
	}))(t)
	path := filepath.Join(dir, "images.tar")
	must.Succeed(t, os.WriteFile(path, text, 0o600))
	return path
}

// Compile builds a program of test/libc, which describes its output.
func Compile(t testing.TB, compiler, source, program string, flags ...string) {
	t.Helper()
	args := append([]string{"-static", "-O1", "-o", program, filepath.Join("..", "libc", "testdata", source)}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", compiler, args, err, out)
	}
}

// archive returns the images in the format of `docker save`: a manifest, and the
// configuration and the layer of each image.
func archive(images []image) ([]byte, error) {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []entry
	files := map[string][]byte{}
	for i, image := range images {
		layer, err := layer(image.files)
		if err != nil {
			return nil, err
		}
		e := entry{fmt.Sprintf("%d.json", i), []string{image.name}, []string{fmt.Sprintf("%d.tar", i)}}
		files[e.Layers[0]] = layer
		if files[e.Config], err = json.Marshal(map[string]any{
			"architecture": runtime.GOARCH,
			"os":           runtime.GOOS,
			"config":       map[string]any{"Entrypoint": sleep},
			"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		}); err != nil {
			return nil, err
		}
		manifest = append(manifest, e)
	}
	var err error
	if files["manifest.json"], err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return tarball(files)
}

func layer(paths map[string]string) ([]byte, error) {
	files := map[string][]byte{}
	for name, path := range paths {
		var err error
		if files[name], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return tarball(files)
}

// tarball returns an archive of executable files.
func tarball(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
