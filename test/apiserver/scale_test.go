// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// scale: a client that scales a StatefulSet is warned of host names that get too long. The webhook
// reads the set with the rights that the chart gives it; without them it warns of nothing, and the
// set is scaled.
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
	w.install(t, nil, "scale.yaml")
	kubectl := c.Kubectl(t)
	if s, err := w.create(t.Context(), []byte(ringOfTen), false); err != nil || s.refused != "" || len(s.warnings) == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	warning := func(replicas string) string {
		t.Helper()
		_, stderr, err := kubectl.Run(t.Context(), "", "scale", "statefulset", "cassandra-dc-east", "--replicas="+replicas)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(stderr, "\n"), "\nWarning: ... ", " "), "Warning: ", "")
	}
	poll.Until(t, "the right to read StatefulSets", func() bool {
		late := warning("12")
		warning("10")
		return late != ""
	})
	for _, step := range []struct{ replicas, ordinal, length string }{
		{"9", "", ""}, {"10", "", ""}, {"11", "10", "65"}, {"10", "", ""}, {"101", "100", "66"}, {"1", "", ""}, {"9", "", ""},
	} {
		want := ""
		if step.ordinal != "" {
			want = "spec.replicas: FQDN cassandra-dc-east-" + step.ordinal +
				".cassandra-ring-001.default.svc.cluster.local would be " + step.length + " characters, 64 is the limit; shorten "
		}
		if got := warning(step.replicas); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("to %s: warning %q, want %q", step.replicas, got, want)
		}
	}
	before := r.updates("")
	if warning("8"); r.updates("") != before {
		t.Errorf("fewer reviews of pods:\n%s\nbefore:\n%s", r.updates(""), before)
	}

	unread := r.updates(`verdict="unread"`)
	kubectl.MustRun(t, "", "delete", "clusterrolebindings,clusterroles", "dnsconfigurer-webhook-scale")
	poll.Until(t, "no warning", func() bool {
		warning("10")
		return warning("11") == ""
	})
	replicas := kubectl.MustRun(t, "", "get", "statefulset", "cassandra-dc-east", "-o", "jsonpath={.spec.replicas}")
	if replicas != "11" {
		t.Errorf("%s replicas, want 11", replicas)
	}
	if r.updates(`verdict="unread"`) == unread {
		t.Error("reviews without a result are not counted")
	}
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
