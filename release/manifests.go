// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// manifestSets are the files of manifests, with the values of the chart that each has.
var manifestSets = []struct{ file, values string }{
	{"install-cluster-dns.yaml", "dns.enabled=true"},
	{"install-node-cache.yaml", "dns.enabled=false,nodeCache.enabled=true"},
	{"install-policies.yaml", "dns.enabled=false,policies.enabled=true"},
	{"install-agent.yaml", "dns.enabled=false,agent.enabled=true"},
}

// helmLine matches the lines of a rendered chart that name helm. Without helm they would be
// wrong.
var helmLine = regexp.MustCompile(`(?m)^( *(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*|# Source: .*)\n`)

// buildManifests renders the chart for kubectl, a file for each component. The image is named by
// its digest. It needs the results of buildImage and buildChart.
func buildManifests(ctx context.Context, r *release) error {
	helm, err := helmPath(ctx, r.root)
	if err != nil {
		return err
	}
	config, err := os.MkdirTemp("", "helm") // not that of the user
	if err != nil {
		return err
	}
	defer os.RemoveAll(config)
	for _, set := range manifestSets {
		cmd := exec.CommandContext(ctx, helm, "template", "dnsconfigurer", r.chartPath(), "--namespace", "kube-system",
			"--kube-version", "1.36.0", "--set", set.values+",image.digest="+r.digest)
		cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+config, "HELM_CACHE_HOME="+config, "HELM_DATA_HOME="+config)
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("rendering %s: %w", set.file, err)
		}
		if err := r.write(set.file, helmLine.ReplaceAll(text, nil)); err != nil {
			return err
		}
	}
	return nil
}

// helmPath returns the path of the helm of test/chart in Go's build cache.
func helmPath(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "helm")
	cmd.Dir = filepath.Join(root, "test", "chart")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as in its tests: one build for both
	cmd.Stderr = os.Stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building helm: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
}
