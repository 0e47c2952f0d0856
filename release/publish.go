// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// publishImage pushes the image and its SBOMs, and prints the reference with the digest. Like helm and cosign, it takes
// the password from the configuration of Docker.
func publishImage(ctx context.Context, r *release) error {
	tag, err := name.NewTag(r.imageName() + ":" + r.imageTag())
	if err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(r.out, "image"))
	if err != nil {
		return fmt.Errorf("reading the image, which \"make release\" writes: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	image, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, image, options...); err != nil {
		return err
	}
	for _, m := range manifest.Manifests[1:] {
		bom, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		if err := remote.Write(tag.Context().Digest(m.Digest.String()), bom, options...); err != nil {
			return err
		}
	}
	fmt.Println(tag.Context().Digest(manifest.Manifests[0].Digest.String()))
	return nil
}

// publishChart pushes the chart with helm, below charts/.
func publishChart(ctx context.Context, r *release) error {
	helm, err := helmPath(ctx, r.root)
	if err != nil {
		return err
	}
	args := []string{"push", r.chartPath(), "oci://" + r.registry + "/charts"}
	if strings.HasPrefix(r.registry, "127.0.0.1:") {
		args = append(args, "--plain-http") // as in the image's reference
	}
	cmd := exec.CommandContext(ctx, helm, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
