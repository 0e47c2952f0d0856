// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageName is the repository of the image.
func (r *release) imageName() string { return r.registry + "/dnsconfigurer" }

// imageUser is the user and group of the distroless images, which policies of clusters know.
const imageUser = "65532:65532"

// buildImage writes the directory image, an OCI layout with an image for each Linux platform, and
// image.tar, which is the same for "ctr images import". In the directory each image has an SBOM as
// referrer (OCI 1.1), for tools that push to a registry. "ctr images import --digests" imports
// every manifest of an archive as an image, and fails at an SBOM.
func buildImage(_ context.Context, r *release) error {
	base, err := r.baseLayer()
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var boms []v1.Image
	for _, b := range r.binaries {
		if b.os != "linux" {
			continue
		}
		img, err := r.platformImage(b, base)
		if err != nil {
			return err
		}
		platform := &v1.Platform{OS: b.os, Architecture: b.arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		bom, err := r.bomArtifact(b, img)
		if err != nil {
			return err
		}
		boms = append(boms, bom)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	r.digest = digest.String()
	dir := filepath.Join(r.out, "image")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	p, err := r.writeLayout(dir, index)
	if err != nil {
		return err
	}
	data, err := tarDirectory(dir, r.time)
	if err != nil {
		return err
	}
	for _, bom := range boms {
		if err := p.AppendImage(bom); err != nil {
			return err
		}
	}
	return r.write("image.tar", data)
}

// writeLayout writes an OCI layout.
func (r *release) writeLayout(dir string, index v1.ImageIndex) (layout.Path, error) {
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return p, err
	}
	// containerd names an imported image by the first annotation, other tools by the second.
	name := layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          r.imageName() + ":" + r.imageTag(),
		"org.opencontainers.image.ref.name": r.imageTag(),
	})
	return p, p.AppendIndex(index, name)
}

// imageTag is the version in the characters of a tag, which has no "+".
func (r *release) imageTag() string { return strings.ReplaceAll(r.version, "+", "-") }

func (r *release) platformImage(b binary, base v1.Layer) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	layer, err := r.layer([]entry{{name: "dnsconfigurer", mode: 0o755, data: program}})
	if err != nil {
		return nil, err
	}
	history := v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "release", Comment: "github.com/dnsconfigurer/dnsconfigurer"}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: base, History: history}, mutate.Addendum{Layer: layer, History: history})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = b.os, b.arch, v1.Time{Time: r.time}
	file.Config = v1.Config{
		User: imageUser, Entrypoint: []string{"/dnsconfigurer"}, WorkingDir: "/",
		Env:    []string{"PATH=/"},
		Labels: r.labels(),
	}
	return mutate.ConfigFile(img, file)
}

// labels are the pre-defined annotation keys of the OCI image specification.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "dnsconfigurer",
		"org.opencontainers.image.description": summary,
		"org.opencontainers.image.source":      homepage,
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.time.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.licenses":    license,
	}
}

// baseLayer has what a static program expects of a system: its user, and the certificates
// of public authorities, for upstream servers over TLS.
func (r *release) baseLayer() (v1.Layer, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return r.layer([]entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates()},
		{name: "usr/", mode: 0o755},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/dnsconfigurer/", mode: 0o755},
		{name: "usr/share/doc/dnsconfigurer/LICENSE", mode: 0o644, data: text},
	})
}

// certificates returns the root certificates of Mozilla's list, PEM. A root that is trusted
// with a restriction is left out, because a file of certificates cannot express it.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer does not fail
		}
	}
	return out.Bytes()
}

// An entry is a file, or a directory if its name ends in a slash.
type entry struct {
	name string
	mode int64
	data []byte
}

// layer returns a layer of an image. All files belong to root.
func (r *release) layer(entries []entry) (v1.Layer, error) {
	data, err := tarEntries(entries, r.time)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
}

// tarEntries returns an archive in which nothing depends on the machine.
func tarEntries(entries []entry, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: modified,
			Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
