// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// ringOfTen is a StatefulSet whose FQDNs have 64 characters. The API server does
// not run it.
const ringOfTen = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"cassandra-dc-east",
  "namespace":"default"},"spec":{"replicas":10,"serviceName":"cassandra-ring-001",
	"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
	  "spec":{"setHostnameAsFQDN":true,"containers":[{"name":"c","image":"registry.example/c"}]}}}}`

// scale: who scales a StatefulSet, by hand or as an autoscaler does, is warned of host
// names that get too long. The webhook reads the set with the rights that the manifests
// give it; without them it says nothing, and everything goes on.
func (w *webhookTest) scale(t *testing.T, c *apiserver.Cluster) {
	kubeconfig := filepath.Join(w.dir, "scale.kubeconfig")
	text, err := c.Kubeconfig(c.Address(), "system:serviceaccount:dnsconfigurer:dnsconfigurer-webhook")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := w.issue(t, dir)
	r := newReplica(t, w, dir, cert, key, kubeconfig)
	defer w.balance(t, []*replica{r})()
	r.start(t)
	w.grantScale(t)
	kubectl := c.Kubectl(t)
	if s, err := w.create(t.Context(), []byte(ringOfTen), false); err != nil || s.refused != "" || len(s.warnings) == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	byHand := func(replicas string) string {
		t.Helper()
		_, stderr, err := kubectl.Run(t.Context(), "", "scale", "statefulset", "cassandra-dc-east", "--replicas="+replicas)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(stderr, "\n"), "\nWarning: ... ", " "), "Warning: ", "")
	}
	poll.Until(t, "the right to read StatefulSets", func() bool {
		said := byHand("12")
		byHand("10")
		return said != ""
	})
	tooLong := func(ordinal, length string) string {
		return "spec.replicas: FQDN cassandra-dc-east-" + ordinal +
			".cassandra-ring-001.default.svc.cluster.local would be " + length + " characters, 64 is the limit; shorten "
	}
	for _, step := range []struct {
		replicas, want string
		by             func(string) string
	}{
		{"9", "", byHand},
		{"10", "", byHand},
		{"11", tooLong("10", "65"), byHand},
		{"10", "", w.autoscaler(t)},
		{"101", tooLong("100", "66"), w.autoscaler(t)},
		{"1", "", w.autoscaler(t)},
	} {
		if said := step.by(step.replicas); !strings.HasPrefix(said, step.want) || (said == "") != (step.want == "") {
			t.Errorf("to %s: said is %q, want %q", step.replicas, said, step.want)
		}
	}
	w.autoscaler(t)("9")
	before := r.updates("")
	if byHand("8"); r.updates("") != before {
		t.Errorf("fewer reviews of pods:\n%s\nbefore:\n%s", r.updates(""), before)
	}

	unread := r.updates(`verdict="unread"`)
	w.revokeScale(t)
	poll.Until(t, "silence", func() bool {
		byHand("10")
		return byHand("11") == ""
	})
	if set, err := w.api.AppsV1().StatefulSets("default").Get(t.Context(), "cassandra-dc-east",
		metav1.GetOptions{}); err != nil || *set.Spec.Replicas != 11 {
		t.Errorf("%+v, %v", set, err)
	}
	if r.updates(`verdict="unread"`) == unread {
		t.Error("what passes unseen is not counted")
	}
}

// grantScale gives the webhook the rights that `webhook manifests` has for scales.
func (w *webhookTest) grantScale(t *testing.T) {
	t.Helper()
	out, err := exec.Command(w.binary, "webhook", "manifests", "--cert-manager-issuer", "a").Output()
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		if strings.Contains(document, "\nkind: ClusterRole") {
			w.apply(t, document)
		}
	}
}

// apply creates an object of the webhook's manifests.
func (w *webhookTest) apply(t *testing.T, document string) {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
	}
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatal(err)
	}
	resource := strings.ToLower(o.Kind) + "s"
	err = w.api.CoreV1().RESTClient().Post().AbsPath("/apis/"+o.APIVersion, resource).Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(object).Do(t.Context()).Error()
	if err != nil {
		t.Fatalf("%s %s: %v", o.Kind, o.Metadata.Name, err)
	}
}

// revokeScale takes them away.
func (w *webhookTest) revokeScale(t *testing.T) {
	t.Helper()
	for _, resource := range []string{"clusterrolebindings", "clusterroles"} {
		if err := w.api.RbacV1().RESTClient().Delete().Resource(resource).Name("dnsconfigurer-webhook-scale").Do(
			t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// autoscaler returns what scales as the HorizontalPodAutoscaler does: it reads the scale
// and writes it.
func (w *webhookTest) autoscaler(t *testing.T) func(replicas string) (said string) {
	t.Helper()
	config, warnings := rest.CopyConfig(w.config), &listener{}
	config.WarningHandlerWithContext = warnings
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	sets := api.AppsV1().StatefulSets("default")
	return func(replicas string) string {
		t.Helper()
		warnings.warnings = nil
		scale, err := sets.GetScale(t.Context(), "cassandra-dc-east", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(replicas)
		if err != nil {
			t.Fatal(err)
		}
		scale.Spec.Replicas = int32(n)
		if _, err := sets.UpdateScale(t.Context(), "cassandra-dc-east", scale, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.Join(warnings.warnings, " "), " ... ", " ")
	}
}

// listener keeps the warnings of one request after another.
type listener struct{ warnings []string }

func (l *listener) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	l.warnings = append(l.warnings, text)
}

// updates are those counts of a replica's reviews of updates that have a label.
func (r *replica) updates(label string) string {
	var counts strings.Builder
	for line := range strings.Lines(process.Page(r.health, "/metrics")) {
		if strings.Contains(line, `endpoint="validate",operation="UPDATE"`) && strings.Contains(line, label) {
			counts.WriteString(line)
		}
	}
	return counts.String()
}
