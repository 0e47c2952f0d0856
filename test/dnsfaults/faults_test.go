// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsfaults

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// TestUndo takes each change of an object back.
func TestUndo(t *testing.T) {
	objects, _, err := Healthy()
	if err != nil {
		t.Fatal(err)
	}
	faults, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		for key, patch := range f.Merge {
			before := objects[key]
			after := Merge(Merge(before, patch), Undo(patch, before))
			if !reflect.DeepEqual(map[string]any(after), map[string]any(before)) {
				t.Errorf("%s: %s is %v, before %v", f.Name, key, after, before)
			}
		}
	}
}

// TestLoadLive: each fault of a live cluster says what must be found there.
func TestLoadLive(t *testing.T) {
	faults, err := LoadLive()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range faults {
		if len(f.Finds) == 0 || f.Evidence == "" || names[f.Name] {
			t.Errorf("incomplete, or twice: %+v", f)
		}
		names[f.Name] = true
	}
	if len(names) < 25 {
		t.Errorf("%d faults", len(names))
	}
}

func TestObject_Path(t *testing.T) {
	for want, o := range map[string]Object{
		"/api/v1/nodes/a": {"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "a"}},
		"/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/p": {
			"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": map[string]any{"name": "p", "namespace": "shop"},
		},
	} {
		if got := o.Path(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestFound_Row has the evidence of a row of the documentation.
func TestFound_Row(t *testing.T) {
	for line, want := range map[string]string{
		"a. A @10.244.0.7:53 over udp: no reply after 12.3 ms: timeout": "a. A @10.244.0.N:53 over udp: no reply after N: timeout",
		"n12.example.com. A @10.244.1.2:53":                             "nN.example.com. A @10.244.1.2:53",
		"OOMKilled, exit code 137, 7 restarts":                          "OOMKilled, exit code 137, N restarts",
		"spec.clusterIPs: 10.96.0.11, fd00:10:96::5e63":                 "spec.clusterIPs: 10.96.0.11, fd00:10:96::N",
		"Pod node-local-dns-htfx5 is Pending":                           "Pod node-local-dns-N is Pending",
		`pods "coredns-refused-6dd9c6db8b-h2fcb" is forbidden`:          `pods "coredns-refused-N" is forbidden`,
		"Pod coredns-17 is Pending, container coredns waits":            "Pod coredns-17 is Pending, container coredns waits",
	} {
		r := v1alpha1.DoctorResult{Findings: []v1alpha1.DoctorFinding{{Code: "c", Evidence: []string{line}}}}
		if row, err := (Fault{Name: "f"}).Found(r, 0, []string{"c"}); err != nil || row != "| f | c | "+want+" |" {
			t.Errorf("%q: %q, %v", line, row, err)
		}
	}
}

// TestFound accepts a result with exactly the findings of a fault.
func TestFound(t *testing.T) {
	finding := v1alpha1.DoctorFinding{
		Code: "probe-slow", Severity: "warning", Object: "DNS server 10.244.0.7:53", Evidence: []string{"A @10.244.0.7:53 after 250.1 ms"},
	}
	other := v1alpha1.DoctorFinding{Code: "probe-tcp", Severity: "error"}
	for _, tt := range []struct {
		name     string
		findings []v1alpha1.DoctorFinding
		exit     int
		fault    Fault
		problem  string
	}{
		{"as it must be", []v1alpha1.DoctorFinding{finding}, 0, Fault{Object: finding.Object, Evidence: "250"}, ""},
		{"nothing", nil, 0, Fault{}, "the findings have the codes"},
		{"a further finding", []v1alpha1.DoctorFinding{finding, other}, 1, Fault{}, "the findings have the codes"},
		{"another exit code", []v1alpha1.DoctorFinding{finding}, 1, Fault{}, "exit code 1"},
		{"another object", []v1alpha1.DoctorFinding{finding}, 0, Fault{Object: "DNS server 10.96.0.10:53"}, "no finding probe-slow"},
		{"other evidence", []v1alpha1.DoctorFinding{finding}, 0, Fault{Evidence: "251"}, "no finding probe-slow"},
	} {
		tt.fault.Name = tt.name
		row, err := tt.fault.Found(v1alpha1.DoctorResult{Findings: tt.findings}, tt.exit, []string{"probe-slow"})
		if tt.problem == "" && (err != nil || row != "| as it must be | probe-slow | A @10.244.0.N:53 after N |") {
			t.Errorf("%s: %q, %v", tt.name, row, err)
		}
		if tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
	}
}
