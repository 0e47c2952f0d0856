// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
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
		Use:       "defaults KIND",
		Short:     "Print a configuration file with every field at its default",
		Long:      "Print a configuration file with every field at its default, and comments.\nKIND is " + strings.Join(v1alpha1.Kinds(), " or ") + ".",
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
	check := findingsOf
	if c.noFiles {
		check = checkFields
	}
	found, problem := check(path)
	err := c.print(cmd.OutOrStdout(), path, found)
	if problem == nil || err != nil && !errors.Is(err, errReported) {
		return err
	}
	if c.output == "text" {
		return problem
	}
	for _, e := range multierr.Unjoin(problem) {
		f := v1alpha1.Finding{Code: codeInvalidConfig, Severity: string(policy.SeverityError), EnforcedBy: string(policy.EnforcedByDNSConfigurer), Message: e.Error()}
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(f); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return errReported
}

// codeInvalidConfig is the code of an error in a configuration file, in JSON output.
const codeInvalidConfig = "invalid-configuration"

// findingsOf returns the findings about a configuration file, and the errors for which a server
// would not use it.
func findingsOf(path string) ([]policy.Finding, error) {
	kind, err := config.ReadKind(path)
	if err != nil {
		return nil, err
	}
	switch kind {
	case v1alpha1.KindDNS:
		_, err := config.DNSKind().FromFile(path).WithPlaces().Load()
		return nil, err
	case v1alpha1.KindNodeCache:
		_, err := config.NodeCacheKind().FromFile(path).WithPlaces().Load()
		return nil, err
	case v1alpha1.KindWebhook:
		_, err := config.WebhookKind().FromFile(path).WithPlaces().Load()
		return nil, err
	case v1alpha1.KindAgent:
		c, err := config.AgentKind().FromFile(path).WithPlaces().Load()
		if err != nil {
			return nil, err
		}
		return c.Node.Check()
	case v1alpha1.KindShim:
		c, err := config.ShimKind().FromFile(path).WithPlaces().Load()
		if err != nil {
			return nil, err
		}
		warnings, problem := shim.Check(c)
		found, err := c.Node.Check()
		return append(found, warnings...), errors.Join(problem, err)
	}
	node, err := config.ReadNode(path, kind)
	if err != nil {
		return nil, err
	}
	return node.Check()
}

// checkFields returns the errors in the fields of a configuration file. It has no findings:
// these are about the host.
func checkFields(path string) ([]policy.Finding, error) {
	kind, err := config.ReadKind(path)
	if err != nil {
		return nil, err
	}
	switch kind {
	case v1alpha1.KindDNS:
		return nil, config.DNSKind().FromFile(path).CheckFields()
	case v1alpha1.KindNodeCache:
		return nil, config.NodeCacheKind().FromFile(path).CheckFields()
	case v1alpha1.KindWebhook:
		return nil, config.WebhookKind().FromFile(path).CheckFields()
	case v1alpha1.KindAgent:
		return nil, config.AgentKind().FromFile(path).CheckFields()
	case v1alpha1.KindShim:
		return nil, config.ShimKind().FromFile(path).CheckFields()
	}
	_, err = config.ReadNode(path, kind)
	return nil, err
}

// print writes the findings about a file. It returns an error if one of them is an error.
func (c *checker) print(w io.Writer, path string, found []policy.Finding) (err error) {
	places := config.ReadPlaces(path)
	for _, f := range output.Findings(found) {
		if c.output == "json" {
			at := places.Of(f.Field)
			f.Line, f.Column = at.Line, at.Column
			err = json.NewEncoder(w).Encode(f)
		} else {
			_, err = fmt.Fprintf(w, "%s: %s: %s: %s (%s)\nhint: %s\n", places.Text(f.Field), f.Severity, f.Field, f.Message, f.Code, f.Hint)
		}
		if err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if slices.ContainsFunc(found, policy.Finding.IsError) {
		return errReported
	}
	return nil
}
