// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// testAdvise: the command finds the workload that asks for names outside the cluster, and after its command nothing
// is wasted. It needs the StatefulSet of testWorkloads. Package advise compares the figures with what is measured.
func (c *cluster) testAdvise(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("advise%d.names.example.com", i))
	}
	find := func() (w v1alpha1.WorkloadAdvice) {
		must.Get(c.lookUp(t, "db-0", "glibc", names...))(t)
		advise := exec.CommandContext(t.Context(), c.Dnsconfigurer, "advise", "--kubeconfig", adminIdentity, "-n", namespace, "-o", "json")
		out, err := advise.Output()
		var r v1alpha1.AdviseResult
		must.Succeed(t, errors.Join(err, json.Unmarshal(out, &r)))
		i := slices.IndexFunc(r.Workloads, func(w v1alpha1.WorkloadAdvice) bool { return w.Kind == "StatefulSet" && w.Name == "db" })
		if i < 0 || r.Servers < 3 || len(r.NotRead) > 0 {
			t.Fatalf("got %s, want the StatefulSet db, and the counts of two cluster DNS servers and a node cache", out)
		}
		return r.Workloads[i]
	}
	before := find()
	i := slices.IndexFunc(before.Cures, func(c v1alpha1.Cure) bool { return c.Code == "ndots" })
	if i < 0 || 2*before.Cures[i].SavesPerDay < before.QueriesPerDay {
		t.Fatalf("got %+v, want that ndots saves most queries", before)
	}
	patch := exec.CommandContext(t.Context(), "sh", "-c", `kubectl() { "$KUBECTL" "$@"; }; `+before.Cures[i].Patch)
	patch.Env = append(os.Environ(), "KUBECONFIG="+adminIdentity, "KUBECTL="+c.kubectl.Program())
	if out, err := patch.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", before.Cures[i].Patch, err, out)
	}
	c.run(t, "", "rollout", "status", "statefulset/db", "--namespace", namespace, "--timeout", patience.String())
	if after := find(); len(after.Cures) > 0 || after.WastedPerDay > after.QueriesPerDay/20 {
		t.Errorf("got %+v after the change, %+v before", after, before)
	}
}
