// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/filecheck"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print defaults of configuration files, and check files",
		Args:  cobra.ArbitraryArgs,
		RunE:  requireCommand,
	}
	cmd.AddCommand(configDefaultsCommand(), configCheckCommand())
	return cmd
}

func configDefaultsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "defaults KIND",
		Short: "Print a configuration file with every field at its default",
		Long: "Print a configuration file with every field at its default, and comments.\n" +
			"KIND is " + strings.Join(v1alpha1.Kinds(), " or ") + ".",
		Example:   "  dnsconfigurer config defaults " + v1alpha1.KindShim + " > shim.yaml",
		ValidArgs: v1alpha1.Kinds(),
		Args:      oneArgument("KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := v1alpha1.Defaults(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

func configCheckCommand() *cobra.Command {
	c := checker{}
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file of dnsconfigurer or of a kubelet",
		Long: `Check a configuration file for unknown fields, invalid values and missing fields. A
missing field may be set by a flag of the server instead.

For a ShimConfiguration, also build what the shim builds: the client of the API server with
its certificates, the sockets and the directories.

For a ShimConfiguration, an AgentConfiguration or a KubeletConfiguration, also check the host's resolv.conf: the
limits that the kubelet checks when it starts, and lines that the kubelet ignores.

With --no-files, check the fields of the file alone. This is for files of another machine,
and for files whose missing fields are flags of the server.

With -f, print which pods of the manifests the node rules of a ShimConfiguration or an
AgentConfiguration change, and how (docs/node-rules.md).

Exit code 1 if the file, the resolv.conf or a manifest has errors.`,
		Example: `  dnsconfigurer config check /etc/dnsconfigurer/shim.yaml
  dnsconfigurer config check /etc/dnsconfigurer/dns.yaml
  dnsconfigurer config check /etc/dnsconfigurer/shim.yaml -f deploy/ -R
  dnsconfigurer config check /var/lib/kubelet/config.yaml -o json`,
		Args: oneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	cmd.Flags().BoolVar(&c.noFiles, "no-files", false, "check FILE without the files that it names, and without required fields")
	formatFlag(cmd, &c.output, "`FORMAT`: text or json (JSON Lines, one for each finding, then one for each changed pod)", "text", "json")
	c.manifests.register(cmd.Flags())
	return cmd
}

type checker struct {
	output    string
	noFiles   bool
	manifests manifestFlags
}

func (c *checker) run(cmd *cobra.Command, path string) error {
	if err := checkOutput(c.output, "text", "json"); err != nil {
		return err
	}
	err := c.checkFile(cmd, path)
	if len(c.manifests.Paths) == 0 || err != nil && !errors.Is(err, errReported) {
		return err
	}
	return cmp.Or(c.printChanges(cmd, path), err)
}

// checkFile checks the configuration file at path and prints the findings.
func (c *checker) checkFile(cmd *cobra.Command, path string) error {
	check := filecheck.File
	if c.noFiles {
		check = filecheck.Fields
	}
	found, problem := check(path)
	if c.output == "json" {
		found, problem = append(found, filecheck.ErrorFindings(path, problem)...), nil
	}
	if err := output.WriteFileFindings(cmd.OutOrStdout(), c.output, path, found); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if problem == nil && slices.ContainsFunc(found, isError) {
		return errReported
	}
	return problem
}

func isError(f v1alpha1.Finding) bool { return f.Severity == string(policy.SeverityError) }

// printChanges prints what the node rules of the file at path change for the pods of the
// manifests.
func (c *checker) printChanges(cmd *cobra.Command, path string) error {
	rules, err := filecheck.LoadRules(path)
	if err != nil {
		return err
	}
	m, readErr := c.manifests.ReadPods(cmd.InOrStdin())
	output.WriteNotes(cmd.ErrOrStderr(), m)
	out := output.RuleChanges{Stdout: cmd.OutOrStdout(), JSON: c.output == "json"}
	for _, w := range m.Workloads {
		w = w.OnNode(c.manifests.namespace, rules.Node.Name)
		before, after := rules.Decide(w.PolicyPod())
		if err := out.Write(w, &before, &after); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return errors.Join(readErr, out.Close())
}
