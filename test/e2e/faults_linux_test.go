// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
)

// faultTest breaks the DNS of the cluster in many ways and has the command doctor find each.
type faultTest struct {
	*cluster
	objects *objects
	base    dnsfaults.Objects // of dnsfaults.Healthy, those that the chart does not install
	table   []string          // the faults, as rows of test/dnsfaults/found.md
}

// testFaults finds faults in the cluster as it is after the installation.
func (c *cluster) testFaults(t *testing.T) {
	f := &faultTest{cluster: c, objects: newObjects(t, c.api)}
	f.awaitHealthy(t)
	servers := f.startServers(t) // which takes as long as the next tests
	f.createBase(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"permissions", f.testPermissions},
		{"objects", f.testObjects},
		{"pods", f.testPodFaults},
		{"kubelet", f.testKubeletFaults},
		{"deletion of the objects", f.deleteBase},
		{"servers", func(t *testing.T) { f.testServers(t, servers) }},
		{"afterwards", func(t *testing.T) { f.awaitHealthy(t) }},
	} {
		begin := time.Now()
		t.Run(test.name, test.run)
		since(t, test.name, begin)
	}
	page, err := os.ReadFile("../dnsfaults/found.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range f.table {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("test/dnsfaults/found.md lacks the row %s", row)
		}
	}
	t.Logf("%d faults:\n| fault | finding | evidence |\n|---|---|---|\n%s", len(f.table), strings.Join(f.table, "\n"))
}

// faultTime is how long the cluster may take until it has a fault. It takes some seconds on an idle
// machine.
const faultTime = 5 * time.Minute

// doctor runs the command, as one does on a node, and returns its result and its exit code.
func (c *cluster) doctor(t *testing.T, flags ...string) (r v1alpha1.DoctorResult, exit int) {
	t.Helper()
	c.names++ // the servers have cached the previous name
	outside := fmt.Sprintf("n%d.names.example.com", c.names)
	args := []string{"doctor", "--kubeconfig", adminIdentity, "-o", "json", "--external-name", outside}
	out, err := exec.CommandContext(t.Context(), c.Dnsconfigurer, append(args, flags...)...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		exit = failed.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit code %d: %v: %s", exit, err, out)
	}
	return r, exit
}

// awaitHealthy returns when the command finds nothing, and has checked everything.
func (f *faultTest) awaitHealthy(t *testing.T, flags ...string) {
	t.Helper()
	f.awaitNothing(t, append([]string{"--kubelets"}, flags...)...)
}

func (f *faultTest) awaitNothing(t *testing.T, flags ...string) {
	t.Helper()
	await(t, "a healthy cluster", func() error {
		r, exit := f.doctor(t, flags...)
		if len(r.Findings)+len(r.NotChecked)+exit > 0 || len(r.Probes) == 0 {
			return fmt.Errorf("exit code %d, findings %+v, not checked %+v", exit, r.Findings, r.NotChecked)
		}
		return nil
	})
}

// testPermissions: with the permissions of docs/debugging.md everything is checked that needs no flag.
func (f *faultTest) testPermissions(t *testing.T) {
	page, err := os.ReadFile("../../docs/debugging.md")
	if err != nil {
		t.Fatal(err)
	}
	_, role, _ := strings.Cut(string(page), "```yaml\n")
	role, _, _ = strings.Cut(role, "```")
	f.apply(t, role+`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
subjects: [{kind: User, name: viewer, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: ClusterRole, name: dnsconfigurer-doctor, apiGroup: rbac.authorization.k8s.io}
`)
	text, err := f.api.Kubeconfig(f.api.Address(), "viewer")
	if err != nil {
		t.Fatal(err)
	}
	viewer := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, viewer, text)
	f.awaitNothing(t, "--kubeconfig", viewer)
}

// find runs the command until it finds a fault, and nothing else.
func (f *faultTest) find(t *testing.T, fault dnsfaults.Fault) {
	t.Helper()
	codes := slices.Concat(fault.Finds, fault.Follows)
	begin := time.Now()
	for {
		r, exit := f.doctor(t, fault.Flags...)
		row, err := fault.Found(withoutNodeCache(r, codes), exit, codes)
		if err == nil {
			f.table = append(f.table, row)
			return
		}
		if time.Since(begin) > faultTime {
			t.Errorf("not after %v: %v, not checked: %+v", faultTime, err, r.NotChecked)
			return
		}
	}
}

// withoutNodeCache returns a result without what becomes of the node cache some seconds after the
// cluster DNS has failed: it is not ready.
func withoutNodeCache(r v1alpha1.DoctorResult, want []string) v1alpha1.DoctorResult {
	const code = "nodecache-not-ready"
	if !slices.Contains(want, code) {
		r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(d v1alpha1.DoctorFinding) bool { return d.Code == code })
	}
	return r
}
