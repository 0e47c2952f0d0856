// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var kinds = []Kind{
	Services, Slices, Pods, Nodes, Namespaces, Events, Deployments, DaemonSets, Networks, Policies, Bindings, Validating, Mutating,
	ConfigMaps, Probes, Kubelets, Ephemeral, Clients,
}

// TestRun_Unread: what was not read is not healthy, and not a finding.
func TestRun_Unread(t *testing.T) {
	s := &Snapshot{Unread: map[Kind]string{}}
	for _, k := range kinds {
		s.Unread[k] = "no permission to list " + string(k)
	}
	r := Run(t.Context(), s)
	notChecked := 0
	for _, n := range r.NotChecked {
		notChecked += len(n.Checks)
	}
	if len(r.Findings) > 0 || r.Passed > 0 || notChecked != len(Checks()) {
		t.Errorf("%d passed, %d of %d not checked, %+v", r.Passed, notChecked, len(Checks()), r.Findings)
	}
}

// TestRun_UnreadKind: each kind that was not read in a healthy cluster leaves its checks out,
// and no other check finds something because of it.
func TestRun_UnreadKind(t *testing.T) {
	for _, k := range kinds {
		s := snapshotOf(t, healthy(t))
		if s.Unread[k] = "test"; k == ConfigMaps {
			s.ConfigMaps = nil
		}
		r := Run(t.Context(), s)
		if len(r.Findings) > 0 || r.Passed == len(Checks()) ||
			!slices.ContainsFunc(r.NotChecked, func(n v1alpha1.DoctorNotChecked) bool { return n.Why == "test" }) {
			t.Errorf("%s: %d passed, not checked: %+v, %+v", k, r.Passed, r.NotChecked, r.Findings)
		}
	}
}

// TestRun_UnreadConfigMap: a ConfigMap that was not read leaves out the checks that need it, and no
// others.
func TestRun_UnreadConfigMap(t *testing.T) {
	for missing, want := range map[string][2]string{ // a check that is not checked, and one that is or does not apply
		"coredns":             {"corefile-loop", "dns-service-address"},
		KubeletConfigMap.Name: {"dns-service-address", "corefile-refused"},
	} {
		s := snapshotOf(t, healthy(t))
		s.UnreadConfigMaps = map[types.NamespacedName]string{{Namespace: systemNamespace, Name: missing}: "forbidden"}
		s.ConfigMaps = slices.DeleteFunc(s.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == missing })
		r := Run(t.Context(), s)
		if len(r.Findings) > 0 || notChecked(r, want[0]) != "forbidden" || notChecked(r, want[1]) == "forbidden" {
			t.Errorf("%s: not checked: %+v, findings: %+v", missing, r.NotChecked, r.Findings)
		}
	}
}

// TestMountedConfigMaps: the certificates beside the token of a service account are not a
// configuration.
func TestMountedConfigMaps(t *testing.T) {
	source := func(name string) corev1.VolumeProjection {
		return corev1.VolumeProjection{
			ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	pod := corev1.PodSpec{Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}, source("kube-root-ca.crt"), source("openshift-service-ca.crt"),
		}}}},
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{source("coredns"), source("coredns-custom")}}}},
	}}
	if got := fmt.Sprint(MountedConfigMaps("a", &pod)); got != "[a/coredns a/coredns-custom]" {
		t.Error(got)
	}
}

// TestRun_UnreadBounded: the reason of what was not read may quote the output of a container.
func TestRun_UnreadBounded(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	s.Unread[Ephemeral] = "1 of 1 not read: " + strings.Repeat("\x1b[2J", 10_000)
	r := Run(t.Context(), s)
	if len(r.NotChecked) != 1 {
		t.Fatalf("%+v", r.NotChecked)
	}
	why := r.NotChecked[0].Why
	if !strings.HasPrefix(why, "1 of 1 not read: ") || !strings.HasSuffix(why, " bytes left out)") ||
		len(strconv.Quote(why)) > excerpt.MaxMessage+len(`""`) {
		t.Errorf("%d bytes: %.200q", len(why), why)
	}
}

// TestRun_NoReplies: outside the cluster its addresses are not reachable, which is not a fault.
func TestRun_NoReplies(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	for i := range s.Probes {
		s.Probes[i].RCode, s.Probes[i].Error = "", "timeout"
	}
	r := Run(t.Context(), s)
	if len(r.Findings) > 0 || len(r.NotChecked) != 1 || r.NotChecked[0].Why != noReplies ||
		!slices.Contains(r.NotChecked[0].Checks, "probe-no-reply") {
		t.Errorf("%+v", r)
	}
}

// TestRun_NoCorefile: the checks of a Corefile do not apply to other servers.
func TestRun_NoCorefile(t *testing.T) {
	objects := healthy(t)
	delete(objects, "ConfigMap kube-system/coredns")
	s := snapshotOf(t, objects)
	permit(s)
	r := Run(t.Context(), s)
	if len(r.NotChecked) > 0 || !slices.Equal(codes(r), []string{"corefile-missing"}) {
		t.Errorf("%+v", r)
	}
}

func TestRun_Scope(t *testing.T) {
	create := func(namespace, node string) dnsfaults.Object {
		return dnsfaults.Object{
			"kind": "Pod", "metadata": map[string]any{"namespace": namespace, "name": "p-" + namespace + "-" + node},
			"spec": map[string]any{"nodeName": node, "hostNetwork": true, "dnsPolicy": "ClusterFirst"},
		}
	}
	for _, tt := range []struct {
		scope Scope
		want  int
	}{
		{Scope{}, 4}, {Scope{Namespace: "x"}, 2}, {Scope{Node: "a"}, 2},
		{Scope{Namespace: "x", Node: "a"}, 1}, {Scope{Namespace: "x", PodName: "p-x-a"}, 1}, {Scope{Namespace: "z"}, 0},
	} {
		objects := healthy(t)
		for _, namespace := range []string{"x", "y"} {
			for _, node := range []string{"a", "b"} {
				o := create(namespace, node)
				objects[o.Key()] = o
			}
		}
		s := snapshotOf(t, objects)
		s.Scope = tt.scope
		if r := Run(t.Context(), s); len(r.Findings) != tt.want {
			t.Errorf("%+v: %d findings, want %d: %+v", tt.scope, len(r.Findings), tt.want, r.Findings)
		}
	}
}

// TestRun_Bounded: thousands of pods with one problem give a bounded result, pods of one
// controller one finding, and long texts are cut.
func TestRun_Bounded(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	isController := true
	for i := range 3000 {
		p := corev1.Pod{}
		p.Namespace, p.Name = "x", fmt.Sprint("p", i)
		p.Spec.HostNetwork, p.Spec.DNSPolicy = true, corev1.DNSClusterFirst
		if i < 1000 {
			p.OwnerReferences = append(p.OwnerReferences, owner("ReplicaSet", "web", &isController))
		}
		s.Pods = append(s.Pods, p)
	}
	long := corev1.Pod{}
	long.Namespace, long.Name, long.Spec.Hostname = "x", "long", strings.Repeat("a", 100_000)
	s.Pods = append(s.Pods, long)
	r := Run(t.Context(), s)
	size := 0
	for _, f := range r.Findings {
		size += len(f.Message) + len(strings.Join(f.Evidence, ""))
	}
	if len(r.Findings) != MaxFindings+1 || r.Findings[MaxFindings].More != 2001-MaxFindings || size > 20_000 {
		t.Errorf("%d findings, %d bytes, the last: %+v", len(r.Findings), size, r.Findings[len(r.Findings)-1])
	}
}

func owner(kind, name string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{Kind: kind, Name: name, Controller: controller}
}

func TestRun_Pod(t *testing.T) {
	tests := []struct {
		name string
		want []string
		none string
	}{
		{"shop/db-0", []string{"nameserver 10.96.0.10", "search shop.svc.cluster.local svc.cluster.local cluster.local",
			"FQDN db-0.db.shop.svc.cluster.local"}, "assumed"},
		{"kube-system/coredns-1", []string{"has the resolv.conf of its node a"}, "nameserver 10"},
	}
	for _, tt := range tests {
		s := snapshotOf(t, healthy(t))
		s.Scope.Namespace, s.Scope.PodName, _ = strings.Cut(tt.name, "/")
		r := Run(t.Context(), s)
		if r.Pod == nil || len(r.Findings) > 0 {
			t.Fatalf("%s: %+v", tt.name, r)
		}
		text := r.Pod.ResolvConf + "FQDN " + r.Pod.FQDN + strings.Join(r.Pod.Notes, "\n")
		for _, want := range tt.want {
			if !strings.Contains(text, want) || strings.Contains(text, tt.none) {
				t.Errorf("%s: no %q, or %q, in %s", tt.name, want, tt.none, text)
			}
		}
	}
}

func TestFindDNSService(t *testing.T) {
	service := func(namespace, name, app, ip string) corev1.Service {
		s := corev1.Service{}
		s.Namespace, s.Name, s.Labels, s.Spec.ClusterIP = namespace, name, map[string]string{"k8s-app": app}, ip
		return s
	}
	all := []corev1.Service{
		service("kube-system", "kube-dns-upstream", "kube-dns", "10.96.0.9"), service("shop", "kube-dns", "kube-dns", "10.96.0.8"),
		service("kube-system", "node-local-dns", "kube-dns", "None"),
		service("kube-system", "coredns", "", "10.96.0.7"), service("kube-system", "rke2-coredns", "kube-dns", "10.96.0.6"),
		service("openshift-dns", "dns-default", "", "172.30.0.10"), service("kube-system", "kube-dns", "", "10.96.0.10"),
	}
	var got []string
	for n := len(all); n >= 0; n-- {
		name := ""
		if s := FindDNSService(all[:n]); s != nil {
			name = s.Name
		}
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"kube-dns", "dns-default", "rke2-coredns", "coredns", "", "", "", ""}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestDocumentation: docs/debugging.md lists the checks, and each has a fault.
func TestDocumentation(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/debugging.md"))(t)
	var rows strings.Builder
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Code] {
			t.Errorf("%s twice", c.Code)
		}
		seen[c.Code] = true
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", c.Code, c.Severity, c.What)
	}
	if !strings.Contains(string(text), "|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/debugging.md lacks the table\n%s", &rows)
	}
	faults := must.Get(dnsfaults.Load())(t)
	found := map[string]bool{}
	for _, f := range faults {
		for _, code := range f.Finds {
			found[code] = true
		}
	}
	for _, c := range Checks() {
		// See TestRun_Probes, TestRun_Clients, TestRun_Kubelets and TestRun_PodFile.
		needsMore := strings.HasPrefix(c.Code, "probe-") || strings.HasPrefix(c.Code, "client-") ||
			c.Code == "kubelet-config-drift" || c.Code == "pod-file"
		if !found[c.Code] && !needsMore {
			t.Errorf("no fault tests %s", c.Code)
		}
	}
}

// TestIsNodeCache: a DaemonSet counts as a node cache only if its pods can have the address of one.
func TestIsNodeCache(t *testing.T) {
	own := map[string]string{"app.kubernetes.io/name": "dnsconfigurer-node-cache"}
	ofChart := func(component string) map[string]string {
		return map[string]string{"app.kubernetes.io/name": "dnsconfigurer", "app.kubernetes.io/part-of": "dnsconfigurer",
			"app.kubernetes.io/component": component}
	}
	for _, tt := range []struct {
		namespace, name string
		labels          map[string]string
		hostNetwork     bool
		want            bool
	}{
		{"kube-system", "node-local-dns", nil, true, true},
		{"kube-system", "nodelocaldns", map[string]string{"k8s-app": "node-local-dns"}, true, true},
		{"dns", "node-cache", own, true, true},
		{"dns", "a-dnsconfigurer-node-cache", ofChart("node-cache"), true, true},
		{"dns", "a-dnsconfigurer-agent", ofChart("agent"), true, false},
		{"shop", "node-local-dns", nil, false, false},
		{"shop", "cache", own, false, false},
		{"kube-system", "kube-proxy", nil, true, false},
	} {
		d := appsv1.DaemonSet{}
		d.Namespace, d.Name, d.Labels, d.Spec.Template.Spec.HostNetwork = tt.namespace, tt.name, tt.labels, tt.hostNetwork
		if got := isNodeCache(&d); got != tt.want {
			t.Errorf("%s/%s, labels %v, hostNetwork %t: %t, want %t", tt.namespace, tt.name, tt.labels, tt.hostNetwork, got, tt.want)
		}
	}
}
