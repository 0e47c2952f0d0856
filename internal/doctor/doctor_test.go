// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// snapshotOf returns the snapshot of a cluster with these objects, and healthy DNS servers.
func snapshotOf(t testing.TB, objects dnsfaults.Objects) *Snapshot {
	t.Helper()
	s := &Snapshot{Unread: map[Kind]string{}, Probes: healthyProbes()}
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		addObject(t, s, objects[key])
	}
	return s
}

func addObject(t testing.TB, s *Snapshot, o dnsfaults.Object) {
	t.Helper()
	into, ok := map[string]any{
		"Service": &s.Services, "EndpointSlice": &s.Slices, "Pod": &s.Pods, "Node": &s.Nodes, "Namespace": &s.Namespaces,
		"Event": &s.Events, "Deployment": &s.Deployments, "DaemonSet": &s.DaemonSets, "NetworkPolicy": &s.Networks,
		"ValidatingAdmissionPolicy": &s.Policies, "ValidatingAdmissionPolicyBinding": &s.Bindings,
		"ValidatingWebhookConfiguration": &s.Validating, "MutatingWebhookConfiguration": &s.Mutating, "ConfigMap": &s.ConfigMaps,
	}[o["kind"].(string)]
	text, err := json.Marshal(o)
	if err != nil || !ok {
		t.Fatalf("%v: %v", o["kind"], err)
	}
	list := reflect.ValueOf(into).Elem()
	item := reflect.New(list.Type().Elem())
	if err := json.Unmarshal(text, item.Interface()); err != nil {
		t.Fatalf("%s: %v", o.Key(), err)
	}
	list.Set(reflect.Append(list, item.Elem()))
}

const (
	service   = "10.96.0.10:53"
	replica1  = "10.244.1.2:53"
	replica2  = "10.244.2.2:53"
	apiName   = "kubernetes.default.svc.cluster.local."
	webName   = "web.shop.svc.cluster.local."
	otherName = "example.com."
)

func healthyProbes() (list []v1alpha1.DoctorProbe) {
	for _, server := range []string{service, replica1, replica2} {
		role := RoleEndpoint
		if server == service {
			role = RoleService
		}
		add := func(protocol, name, qtype string, answers ...string) {
			list = append(list, v1alpha1.DoctorProbe{Server: server, Role: role, Protocol: protocol, Name: name, Type: qtype,
				RCode: rcodeSuccess, Answers: answers, Micros: 900})
		}
		add(UDP, apiName, "A", "10.96.0.1")
		add(UDP, apiName, "AAAA")
		add(TCP, apiName, "A", "10.96.0.1")
		add(UDP, webName, "A", "10.96.5.1")
		add(UDP, otherName, "A", "192.0.2.80")
		add(UDP, otherName, "AAAA")
	}
	return list
}

func healthy(t testing.TB) dnsfaults.Objects {
	t.Helper()
	objects, _, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	text := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"kubernetes","namespace":"default"},` +
		`"spec":{"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1"],"ports":[{"port":443}]}}`
	var o dnsfaults.Object
	must.Succeed(t, json.Unmarshal([]byte(text), &o))
	objects[o.Key()] = o
	return objects
}

func TestRun_Healthy(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	permit(s)
	r := Run(t.Context(), s)
	for _, f := range r.Findings {
		t.Errorf("%+v", f)
	}
	want := len(Checks())
	if len(r.NotChecked) > 0 || r.Passed != want || HasErrors(r) {
		t.Errorf("%d of %d checks passed, not checked: %+v", r.Passed, want, r.NotChecked)
	}
}

// codes returns the codes of the findings, without repetitions.
func codes(r v1alpha1.DoctorResult) []string {
	var list []string
	for _, f := range r.Findings {
		list = append(list, f.Code)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestRun_Faults applies each fault to the healthy cluster. test/dnsfaults/found.md has a row for each.
func TestRun_Faults(t *testing.T) {
	faults := must.Get(dnsfaults.Load())(t)
	page := must.Get(os.ReadFile("../../test/dnsfaults/found.md"))(t)
	base := healthy(t)
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			objects := must.Get(f.Apply(base))(t)
			r := Run(t.Context(), snapshotOf(t, objects))
			checkFault(t, r, f.Finds, f.Evidence)
			if row := foundRow(r, f); !strings.Contains(string(page), row) {
				t.Errorf("test/dnsfaults/found.md lacks the row %s", row)
			}
		})
	}
}

// foundRow returns the row of found.md for a fault.
func foundRow(r v1alpha1.DoctorResult, f dnsfaults.Fault) string {
	check := Checks()[slices.IndexFunc(Checks(), func(c Check) bool { return c.Code == f.Finds[0] })]
	severity, _, _ := strings.Cut(check.Severity, ",")
	if f.Severity != "" {
		severity = f.Severity
	}
	for _, d := range r.Findings {
		if d.Code != f.Finds[0] || d.Severity != severity || f.Object != "" && f.Object != d.Object {
			continue
		}
		for _, line := range d.Evidence {
			if strings.Contains(line, f.Evidence) {
				return fmt.Sprintf("\n| %s | %s | %s |\n", f.Name, d.Code, line)
			}
		}
	}
	return fmt.Sprintf("%s: no %s %s of %q has the evidence %q", f.Name, severity, f.Finds[0], f.Object, f.Evidence)
}

// checkFault checks the codes of all findings, and the evidence of the first of finds.
func checkFault(t *testing.T, r v1alpha1.DoctorResult, finds []string, evidence string) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(finds)), codes(r)); diff != "" {
		t.Errorf("codes (-want +got)\n%s%+v", diff, r.Findings)
	}
	found := len(finds) == 0
	for _, f := range r.Findings {
		found = found || f.Code == finds[0] && strings.Contains(strings.Join(f.Evidence, "\n"), evidence)
		if f.Object == "" || f.Message == "" || f.Cause == "" || f.Next == "" || len(f.Evidence) == 0 || strings.Contains(f.Next, "$N") {
			t.Errorf("incomplete: %+v", f)
		}
	}
	if !found {
		t.Errorf("no finding %s with the evidence %q: %+v", finds[0], evidence, r.Findings)
	}
}

// withCorefile returns the healthy cluster with a change of its Corefile.
func withCorefile(t *testing.T, old, text string) *Snapshot {
	objects := healthy(t)
	data := objects["ConfigMap kube-system/coredns"]["data"].(map[string]any)
	corefile := data["Corefile"].(string)
	if !strings.Contains(corefile, old) {
		t.Fatalf("no %q in %s", old, corefile)
	}
	data["Corefile"] = strings.Replace(corefile, old, text, 1)
	return snapshotOf(t, objects)
}

// TestRun_Corefile: what loses names of the cluster, and what does not; the cause explains the server of a loop: only
// a loopback address is the pod itself.
func TestRun_Corefile(t *testing.T) {
	for _, tt := range []struct{ old, text, code, part string }{
		{"/etc/resolv.conf", "10.96.0.10", "corefile-loop", "each query for a name outside the cluster returns"},
		{"/etc/resolv.conf", "127.0.0.53", "corefile-loop", "in a pod a loopback address is the pod itself"},
		{"loop", "template IN A {\n rcode NOERROR\n}", "corefile-lost-names", "Corefile:17: template IN A"},
		{"loop", "template IN AAAA {\n rcode NXDOMAIN\n}", "corefile-lost-names", "Corefile:17: template IN AAAA"},
		{"loop", "template IN AAAA", "", ""},
		{"loop", "template IN A corp.example", "", ""},
		{"loop", "template IN A {\n match ^a\n fallthrough\n}", "", ""},
		{"loop", "acl {\n block\n}", "corefile-lost-names", "Corefile:17: acl"},
		{"loop", "acl {\n block type ANY\n}", "", ""},
		{"pods insecure", "namespaces shop", "corefile-lost-names", "Corefile:7: kubernetes"},
		{".:53", ".:5353", "corefile-lost-names", "no server block has the port 53, to which the Service leads"},
		{"loop", "hosts /etc/hosts corp.example", "", ""},
	} {
		r := Run(t.Context(), withCorefile(t, tt.old, tt.text))
		got := codes(r)
		if tt.code == "" && got == nil {
			continue
		}
		text := fmt.Sprintf("%+v", r.Findings)
		if len(r.Findings) != 1 || got[0] != tt.code || !strings.Contains(text, tt.part) {
			t.Errorf("%q: want %s, %q: %s", tt.text, tt.code, tt.part, text)
		}
	}
}

// TestRun_Limits: the pods of a node have one finding.
func TestRun_Limits(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	for i := range 30 {
		p := corev1.Pod{}
		p.Namespace, p.Name, p.Spec.NodeName = "shop", fmt.Sprint("p", i), "a"
		s.Pods = append(s.Pods, p)
		s.Events = append(s.Events, corev1.Event{
			Reason: reasonDNS, Message: "Search Line limits were exceeded, the applied search line is: " + p.Name,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: p.Name},
		})
	}
	r := Run(t.Context(), s)
	if len(r.Findings) != 1 || !strings.HasSuffix(r.Findings[0].Message, ", and of 29 more pods of its node") {
		t.Errorf("%+v", r.Findings)
	}
}

// TestRun_CrashedSidecar: the command for the log of a pod with two containers names the crashed one.
func TestRun_CrashedSidecar(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, "coredns-") })
	p := &s.Pods[i]
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "sidecar", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}})
	want := "kubectl -n kube-system logs " + p.Name + " -c sidecar --previous"
	r := Run(t.Context(), s)
	if !slices.ContainsFunc(r.Findings, func(f v1alpha1.DoctorFinding) bool { return f.Code == "dns-crash-loop" && f.Next == want }) {
		t.Errorf("no dns-crash-loop with %q: %+v", want, r.Findings)
	}
}

// TestRun_Probes changes the replies of the servers of the healthy cluster.
func TestRun_Probes(t *testing.T) {
	type probe = v1alpha1.DoctorProbe
	answers := func(rcode string, addresses ...string) func(*probe) {
		return func(p *probe) { p.RCode, p.Answers = rcode, addresses }
	}
	takes := func(micros int64) func(*probe) { return func(p *probe) { p.Micros = micros } }
	const ipv6 = "[fd00::10]:53"
	for _, tt := range []struct {
		name     string
		find     string // "": no finding
		evidence string
		probes   func(*probe) bool // that change
		change   func(*probe)
	}{
		{"one replica is silent", "probe-no-reply", "@10.244.2.2:53 over tcp: no reply",
			func(p *probe) bool { return p.Server == replica2 }, silence},
		{"UDP is dropped", "probe-no-reply", "over udp: no reply",
			func(p *probe) bool { return p.Server == service && p.Protocol == UDP }, silence},
		{"TCP is dropped", "probe-no-reply", "over tcp: no reply",
			func(p *probe) bool { return p.Server == service && p.Protocol == TCP }, silence},
		{"SERVFAIL", "probe-wrong-answer", "SERVFAIL",
			func(p *probe) bool { return p.Server == replica1 && p.Name != otherName }, answers("SERVFAIL")},
		{"wrong address", "probe-wrong-answer", "the API server has 10.96.0.1 for " + apiName,
			func(p *probe) bool { return p.Name == apiName && p.Type == "A" }, answers(rcodeSuccess, "10.0.0.1")},
		{"stale replica", "probe-wrong-answer", "@10.244.2.2:53 over udp: NXDOMAIN",
			func(p *probe) bool { return p.Server == replica2 && p.Name == webName }, answers(rcodeNXDomain)},
		{"no AAAA", "probe-aaaa-nxdomain", "AAAA @10.96.0.10:53 over udp: NXDOMAIN",
			func(p *probe) bool { return p.Type == "AAAA" }, answers(rcodeNXDomain)},
		{"no AAAA outside", "probe-aaaa-nxdomain", "example.com. AAAA @10.96.0.10:53 over udp: NXDOMAIN",
			func(p *probe) bool { return p.Type == "AAAA" && p.Name == otherName }, answers(rcodeNXDomain)},
		{"no such name outside", "", "", func(p *probe) bool { return p.Name == otherName }, answers(rcodeNXDomain)},
		{"upstream is down", "probe-external", "example.com. A @10.96.0.10:53 over udp: SERVFAIL",
			func(p *probe) bool { return p.Name == otherName }, answers("SERVFAIL")},
		{"slow", "probe-unreliable", "after 350.0 ms", func(p *probe) bool { return p.Server == replica1 }, takes(350_000)},
		{"one slow reply", "", "", func(p *probe) bool { return p.Protocol == TCP }, takes(350_000)},
		{"one late reply", "probe-unreliable", "over udp: NOERROR, 10.96.5.1 after 1500.0 ms",
			func(p *probe) bool { return p.Server == replica1 && p.Name == webName }, takes(1_500_000)},
		{"one lost query", "probe-unreliable", webName + " A @10.244.2.2:53 over udp: no reply",
			func(p *probe) bool { return p.Server == replica2 && p.Name == webName }, silence},
		{"one lost query to a server outside", "", "",
			func(p *probe) bool { return p.Server == replica2 && p.Name == otherName && p.Type == "AAAA" }, silence},
		{"both addresses of the Service are silent", "probe-no-reply", "@" + ipv6,
			func(p *probe) bool { return p.Server == service || p.Server == replica2 }, func(p *probe) {
				if silence(p); p.Server == replica2 {
					p.Server, p.Role = ipv6, RoleService
				}
			}},
		{"IPv6 is silent", "probe-no-reply", "@" + ipv6, func(p *probe) bool { return p.Server == replica2 },
			func(p *probe) { silence(p); p.Server = ipv6 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			for i := range s.Probes {
				if p := &s.Probes[i]; tt.probes(p) {
					tt.change(p)
				}
			}
			checkFault(t, Run(t.Context(), s), strings.Fields(tt.find), tt.evidence)
		})
	}
}

// TestRun_OldEvents has events, which stay for an hour, about pods that have changed since.
func TestRun_OldEvents(t *testing.T) {
	const (
		tooMany = "Nameserver limits were exceeded"
		refused = "Failed to create pod sandbox: open resolv.conf: no such file or directory"
	)
	for _, tt := range []struct {
		name            string
		reason, message string
		uid             types.UID // in the event; the pod has "now"
		ready           corev1.ConditionStatus
		want            []string
	}{
		{"limits of the pod", reasonDNS, tooMany, "now", corev1.ConditionTrue, []string{"pod-dns-limits"}},
		{"limits of an earlier pod of a StatefulSet", reasonDNS, tooMany, "before", corev1.ConditionTrue, nil},
		{"a sandbox that fails", reasonSandbox, refused, "now", corev1.ConditionFalse, []string{"pod-sandbox", "service-no-pods"}},
		{"a sandbox that was created since", reasonSandbox, refused, "now", corev1.ConditionTrue, nil},
		{"a sandbox of an earlier pod", reasonSandbox, refused, "before", corev1.ConditionFalse, []string{"service-no-pods"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == "db-0" })
			s.Pods[i].UID = "now"
			s.Pods[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: tt.ready}}
			s.Events = []corev1.Event{{
				Reason: tt.reason, Message: tt.message,
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "db-0", UID: tt.uid},
			}}
			if got := codes(Run(t.Context(), s)); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
