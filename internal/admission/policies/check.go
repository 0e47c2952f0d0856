// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// checkTimeout limits each request of checkCluster. An API server waits up to 30 s for webhooks.
const checkTimeout = 40 * time.Second

// outcome is what a cluster does with a known-bad object of a kind.
type outcome struct {
	Kind    string
	Denied  []string // the bindings that deny it, sorted
	Warning []string // the bindings that warn of it, sorted
}

// enforced reports whether any policy acts on the object.
func (o outcome) enforced() bool { return len(o.Denied)+len(o.Warning) > 0 }

func (o outcome) String() string {
	var done []string
	if o.Denied != nil {
		done = append(done, "denied by "+strings.Join(o.Denied, ", "))
	}
	if o.Warning != nil {
		done = append(done, "warned of by "+strings.Join(o.Warning, ", "))
	}
	if done == nil {
		done = []string{"not enforced"}
	}
	return o.Kind + ": " + strings.Join(done, "; ")
}

// checkCluster creates a known-bad Pod, ReplicaSet and Job in a namespace as a dry run, one for each
// group of bindings. The objects satisfy the restricted Pod Security Standard. The error
// joins one error for each kind whose outcome is unknown. If all are known, it returns an error only
// if no policy acts on any object.
func checkCluster(ctx context.Context, cfg *rest.Config, namespace string) ([]outcome, error) {
	var outcomes []outcome
	var problems []error
	for _, p := range probes() {
		o, err := p.run(ctx, cfg, namespace)
		if err != nil {
			problems = append(problems, fmt.Errorf("creating a %s in namespace %s as a dry run: %w", p.kind, namespace, err))
			continue
		}
		outcomes = append(outcomes, o)
	}
	if problems == nil && !slices.ContainsFunc(outcomes, outcome.enforced) {
		return outcomes, errors.New("no policy is enforced: apply the output of dnsconfigurer policies, " +
			"and check again after a few seconds")
	}
	return outcomes, errors.Join(problems...)
}

// probe is a known-bad object.
type probe struct{ kind, path, object string } // path is of its resource, with the namespace as %s

// The spec of a known-bad pod, with an option that dnsconfigurer-errors reports, and one that
// dnsconfigurer-warnings reports, whatever the values of the cluster are; and a pod template.
const (
	badSpec = `"spec": {"restartPolicy": "Never",
		"dnsConfig": {"options": [{"name": "edns0", "value": "a\nb"}, {"name": "dnsconfigurer-policies-check"}]},
		"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
		"containers": [{"name": "c", "image": "registry.example/c",
			"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}`
	badTemplate = `"template": {"metadata": {"labels": {"app": "dnsconfigurer-policies-check"}}, ` + badSpec + `}`
	badMetadata = `"metadata": {"name": "dnsconfigurer-policies-check"}`
)

// probes returns an object for each group of bindings.
func probes() []probe {
	const replicaSet = `{"apiVersion": "apps/v1", "kind": "ReplicaSet", ` + badMetadata + `, "spec": {"replicas": 0,
		"selector": {"matchLabels": {"app": "dnsconfigurer-policies-check"}}, ` + badTemplate + `}}`
	return []probe{
		{"Pod", "/api/v1/namespaces/%s/pods", `{"apiVersion": "v1", "kind": "Pod", ` + badMetadata + `, ` + badSpec + `}`},
		{"ReplicaSet", "/apis/apps/v1/namespaces/%s/replicasets", strings.Replace(replicaSet, `"Never"`, `"Always"`, 1)},
		{"Job", "/apis/batch/v1/namespaces/%s/jobs",
			`{"apiVersion": "batch/v1", "kind": "Job", ` + badMetadata + `, "spec": {` + badTemplate + `}}`},
	}
}

// acted matches the sentences of the API server about a policy and its binding.
var acted = regexp.MustCompile(`ValidatingAdmissionPolicy 'dnsconfigurer-(?:errors|warnings)' with binding '([^']*)'`)

// run returns what the cluster does with p.
func (p probe) run(ctx context.Context, cfg *rest.Config, namespace string) (outcome, error) {
	var warnings bytes.Buffer
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler, cfg.WarningHandlerWithContext = rest.NewWarningWriter(&warnings, rest.WarningWriterOptions{}), nil
	cfg.Timeout = checkTimeout
	c, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion)
	if err != nil {
		return outcome{}, err
	}
	err = c.Post().AbsPath(fmt.Sprintf(p.path, namespace)).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body([]byte(p.object)).MaxRetries(0).Do(ctx).Error()
	o := outcome{Kind: p.kind, Warning: bindings(warnings.String())}
	if err != nil {
		if o.Denied = bindings(err.Error()); o.Denied == nil {
			return outcome{}, err
		}
	}
	return o, nil
}

// bindings returns the bindings that a text of the API server names, sorted.
func bindings(text string) (names []string) {
	for _, m := range acted.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A ClusterCheck has the values of the flags of --check.
type ClusterCheck struct {
	Kubeconfig string // file; "": as kubectl
	Namespace  string // of the objects
}

// Register adds the flags.
func (c *ClusterCheck) Register(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`, for --check; empty: as kubectl, $KUBECONFIG, ~/.kube/config or the pod's service account")
	flags.StringVarP(&c.Namespace, "namespace", "n", "default",
		"`NAMESPACE` of the objects of --check; not kube-system, which the policies skip")
}

// Run writes what the cluster does with the objects of checkCluster.
func (c ClusterCheck) Run(ctx context.Context, userAgent string, out io.Writer) error {
	if fqdn.LabelProblems(c.Namespace) != nil || c.Namespace == "kube-system" {
		return usage.Errorf("--namespace: %q: want a namespace other than kube-system", c.Namespace)
	}
	cfg, err := cluster.LoadUserConfig(c.Kubeconfig, "", userAgent)
	if err != nil {
		return err
	}
	outcomes, failed := checkCluster(ctx, cfg, c.Namespace)
	for _, o := range outcomes {
		if _, err := fmt.Fprintln(out, o); err != nil {
			return err
		}
	}
	return failed
}
