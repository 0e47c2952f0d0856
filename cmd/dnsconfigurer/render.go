// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func renderCommand() *cobra.Command {
	r := renderer{}
	cmd := &cobra.Command{
		Use:   "render -f FILE|DIR|-",
		Short: "Print the resolv.conf and the host name that pods get",
		Long: `Print what the node gives to every Pod and to the pods of every template
(Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job,
CronJob, PodTemplate, List) in YAML or JSON.

The result is the kubelet's, save for what docs/divergences.md lists. Warnings go
to standard error. Exit code 1 when the input has errors: a file that cannot be
read, or a finding of severity error, as for a pod that would not start.`,
		Example: `  dnsconfigurer render -f examples/ --resolv-conf examples/node/resolv.conf
  dnsconfigurer render -f pod.yaml -o explain
  helm template chart/ | dnsconfigurer render -f - -o json --kubelet-config /var/lib/kubelet/config.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&r.files, "filename", "f", nil, "`FILE|DIR|-` to read; repeatable")
	cmd.Flags().StringVarP(&r.namespace, "namespace", "n", "default", "`NAMESPACE` of objects that name none")
	cmd.Flags().StringVarP(&r.output, "output", "o", "resolv.conf", "`FORMAT`: resolv.conf, json (one object a line) or explain")
	r.node.Register(cmd.Flags())
	return cmd
}

type renderer struct {
	files     []string
	namespace string
	output    string
	node      config.NodeFlags
}

func (r *renderer) run(cmd *cobra.Command) error {
	if err := outputFlag(r.output, "resolv.conf", "json", "explain"); err != nil {
		return err
	}
	if len(r.files) == 0 {
		return usageError{errors.New("-f is missing")}
	}
	node, err := r.node.Load()
	if err != nil {
		return err
	}
	engine, err := node.Engine()
	if err != nil {
		return err
	}
	host, found := node.Host()
	reportFindings(cmd.ErrOrStderr(), append(node.Findings, found...))

	m, unread := manifest.ReadPods(r.files, cmd.InOrStdin())
	out := printer{cmd.OutOrStdout(), cmd.ErrOrStderr(), r.output, len(m.Workloads) > 1, map[string]bool{}}
	bad := false
	for _, w := range m.Workloads {
		inNamespace(&w, r.namespace, node.Name)
		d := engine.Decide(policyPod(w), host)
		bad = bad || !d.Starts() || slices.ContainsFunc(d.Findings, policy.Finding.IsError)
		if err := out.print(w, &d); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if unread != nil {
		return unread
	}
	if bad {
		return errReported
	}
	return nil
}

// printer writes decisions in one of the formats of render.
type printer struct {
	stdout, stderr io.Writer
	format         string
	several        bool            // more than one decision is to come
	said           map[string]bool // about the node, which is the same for all pods
}

func (p printer) print(w kube.Workload, d *policy.Decision) error {
	if p.format == "json" {
		return json.NewEncoder(p.stdout).Encode(rendered(w, d))
	}
	title := fmt.Sprintf("# %s %s/%s\n", w.Kind, w.Pod.Namespace, w.Name)
	if p.format == "explain" {
		_, err := io.WriteString(p.stdout, title+d.Explain())
		return err
	}
	for _, f := range findings(d.Findings) {
		if f.Severity != string(policy.SeverityInfo) {
			p.report(w.Location, f)
		}
	}
	text := ""
	if p.several {
		text = title
	}
	if d.Error == "" { // a pod that does not start gets no file
		text += d.Config().String()
	}
	_, err := io.WriteString(p.stdout, text)
	return err
}

// report writes a finding about the object at l. One about the node is not the
// object's, and is said once.
func (p printer) report(l kube.Location, f v1alpha1.Finding) {
	l.Field = f.Field
	where := l.String()
	if f.Field == policy.FieldResolvConf || f.Field == policy.FieldClusterDNS {
		where = "the node's " + f.Field
		if p.said[f.Message] {
			return
		}
		p.said[f.Message] = true
	}
	fmt.Fprintf(p.stderr, "dnsconfigurer: %s: %s: %s\nhint: %s\n", where, f.Severity, f.Message, f.Hint)
}

func rendered(w kube.Workload, d *policy.Decision) v1alpha1.RenderResult {
	c := d.Config()
	return v1alpha1.RenderResult{
		Kind:        w.Kind,
		Namespace:   w.Pod.Namespace,
		Name:        w.Name,
		Nameservers: c.Nameservers,
		Searches:    c.Searches,
		Options:     c.Options,
		Hostname:    d.Hostname,
		FQDN:        d.FQDN,
		Findings:    findings(d.Findings),
		Error:       d.Error,
	}
}
