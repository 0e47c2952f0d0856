// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
)

// printChanges prints what the node rules of the file at path change for the pods of the
// manifests.
func (c *checker) printChanges(cmd *cobra.Command, path string) error {
	kind, err := config.ReadKind(path)
	if err != nil {
		return err
	}
	if kind != v1alpha1.KindShim && kind != v1alpha1.KindAgent {
		return fmt.Errorf("%s: kind %s has no node rules: use -f with a %s or an %s only", path, kind, v1alpha1.KindShim, v1alpha1.KindAgent)
	}
	node, err := config.ReadNode(path, kind)
	if err != nil {
		return err
	}
	engine, err := node.Engine()
	if err != nil {
		return err
	}
	plain := node
	plain.Rules = nil
	unchanged, err := plain.Engine()
	if err != nil {
		return err
	}
	host, _ := node.Host()
	m, readErr := c.manifests.ReadPods(cmd.InOrStdin())
	output.WriteNotes(cmd.ErrOrStderr(), m)
	out := output.RuleChanges{Stdout: cmd.OutOrStdout(), JSON: c.output == "json"}
	for _, w := range m.Workloads {
		w = w.OnNode(c.manifests.namespace, node.Name)
		before, after := unchanged.Decide(w.PolicyPod(), host), engine.Decide(w.PolicyPod(), host)
		if err := out.Write(w, &before, &after); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return errors.Join(readErr, out.Close())
}
