// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
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
type probe struct {
	kind   string
	path   string // of its resource, with the namespace as %s
	object any
}

const probeName = "dnsconfigurer-policies-check"

// probes returns an object for each group of bindings. Each has an option that
// dnsconfigurer-errors reports, and one that dnsconfigurer-warnings reports, whatever the
// values of the cluster are.
func probes() []probe {
	spec := corev1.PodSpec{
		DNSConfig: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{
			{Name: "edns0", Value: new("a\nb")}, {Name: probeName},
		}},
		RestartPolicy: corev1.RestartPolicyNever,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "c", Image: "registry.example/c",
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}
	always := spec
	always.RestartPolicy = corev1.RestartPolicyAlways
	meta := metav1.ObjectMeta{Name: probeName}
	labels := map[string]string{"app": probeName}
	template := func(s corev1.PodSpec) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s}
	}
	object := func(apiVersion, kind string, spec any) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta, "spec": spec}
	}
	return []probe{
		{"Pod", "/api/v1/namespaces/%s/pods", object("v1", "Pod", spec)},
		{"ReplicaSet", "/apis/apps/v1/namespaces/%s/replicasets", object("apps/v1", "ReplicaSet",
			map[string]any{"replicas": 0, "selector": metav1.LabelSelector{MatchLabels: labels}, "template": template(always)})},
		{"Job", "/apis/batch/v1/namespaces/%s/jobs", object("batch/v1", "Job", map[string]any{"template": template(spec)})},
	}
}

// acted matches the sentences of the API server about a policy and its binding.
var acted = regexp.MustCompile(`ValidatingAdmissionPolicy 'dnsconfigurer-(?:errors|warnings)' with binding '([^']*)'`)

// run returns what the cluster does with p.
func (p probe) run(ctx context.Context, cfg *rest.Config, namespace string) (outcome, error) {
	body, err := json.Marshal(p.object)
	if err != nil {
		return outcome{}, err
	}
	warned := &warnings{}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler, cfg.WarningHandlerWithContext, cfg.Timeout = warned, nil, checkTimeout
	c, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion)
	if err != nil {
		return outcome{}, err
	}
	err = c.Post().AbsPath(fmt.Sprintf(p.path, namespace)).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).MaxRetries(0).Do(ctx).Error()
	o := outcome{Kind: p.kind, Warning: bindings(warned.list()...)}
	if err != nil {
		if o.Denied = bindings(err.Error()); o.Denied == nil {
			return outcome{}, err
		}
	}
	return o, nil
}

// bindings returns the bindings that sentences of the API server name.
func bindings(sentences ...string) []string {
	names := map[string]bool{}
	for _, s := range sentences {
		for _, m := range acted.FindAllStringSubmatch(s, -1) {
			names[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	if code != 299 { // miscellaneous persistent warning (RFC 7234 section 5.5.7)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
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
