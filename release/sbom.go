// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const bomType = "application/spdx+json"

// sbom returns the list of the modules in a binary, SPDX 2.3 in JSON. It is read from the
// binary itself, so that it has what was linked and nothing else.
func (r *release) sbom(b binary) ([]byte, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(program)
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      fmt.Sprintf("dnsconfigurer-%s-%s-%s", r.version, b.os, b.arch),
		DocumentNamespace: fmt.Sprintf("%s/sbom/%s/%s-%s/%x", homepage, r.version, b.os, b.arch, digest[:8]),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The dnsconfigurer Authors"}},
			Created:  r.time.Format("2006-01-02T15:04:05Z"),
		},
	}
	main := modulePackage(&b.info.Main, "Package-dnsconfigurer")
	main.PackageVersion = r.version
	main.PackageLicenseDeclared = license
	main.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(digest[:])}}
	doc.Packages = append(doc.Packages, main)
	doc.Relationships = append(doc.Relationships, relate("DOCUMENT", "DESCRIBES", main.PackageSPDXIdentifier))
	goVersion := strings.TrimPrefix(b.info.GoVersion, "go")
	modules := append([]*debug.Module{{Path: "stdlib", Version: goVersion}}, b.info.Deps...)
	for i, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		p := modulePackage(m, common.ElementID(fmt.Sprintf("Package-%d", i+1)))
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relate(main.PackageSPDXIdentifier, "DEPENDS_ON", p.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	err = spdxjson.Write(doc, &out, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
	return out.Bytes(), err
}

func modulePackage(m *debug.Module, id common.ElementID) *spdx.Package {
	return &spdx.Package{
		PackageName: m.Path, PackageSPDXIdentifier: id, PackageVersion: m.Version,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION",
		PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: "PACKAGE-MANAGER", RefType: "purl", Locator: "pkg:golang/" + m.Path + "@" + m.Version,
		}},
	}
}

func relate(from common.ElementID, relationship string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: from}, Relationship: relationship,
		RefB: common.DocElementID{ElementRefID: to}}
}

// bomArtifact returns the SBOM of an image as its referrer.
func (r *release) bomArtifact(b binary, img v1.Image) (v1.Image, error) {
	data, err := r.sbom(b)
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), bomType)
	if artifact, err = mutate.AppendLayers(artifact, static.NewLayer(data, bomType)); err != nil {
		return nil, err
	}
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}

// writeChecksums writes the SHA-256 sums of all results, in the form of sha256sum(1).
func writeChecksums(_ context.Context, r *release) error {
	dir := r.out
	if err := r.removePrevious("checksums.txt*"); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		fmt.Fprintf(&out, "%x  %s\n", h.Sum(nil), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksumsFile), out.Bytes(), 0o644)
}

const checksumsFile = "checksums.txt"
