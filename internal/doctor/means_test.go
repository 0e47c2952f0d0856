// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// healthyMeans are the queries of the pod shop/db-0.
func healthyMeans() (list []v1alpha1.DoctorProbe) {
	for _, p := range healthyProbes() {
		p.Means = MeansContainer
		list = append(list, p)
	}
	return list
}

func silence(p *v1alpha1.DoctorProbe) { p.RCode, p.Answers, p.Error = "", nil, "timeout" }

// TestRun_Means changes the replies by other means. Nothing replies to this machine, as outside of a
// cluster.
func TestRun_Means(t *testing.T) {
	type probe = v1alpha1.DoctorProbe
	none := func(*probe) bool { return false }
	inPod := func(p *probe) bool { return p.Means == MeansContainer }
	stale := func(p *probe) { p.RCode, p.Answers = rcodeNXDomain, nil }
	for _, tt := range []struct {
		name     string
		find     string // "": no finding
		message  string
		evidence string
		probes   func(*probe) bool // that change
		change   func(*probe)
	}{
		{"healthy", "", "", "", none, silence},
		{"a stale server replies to the pod", "probe-wrong-answer", "it has other addresses than the API server from the pod",
			webName + " A @10.244.2.2:53 over udp from the pod: NXDOMAIN, no records",
			func(p *probe) bool { return inPod(p) && p.Server == replica2 && p.Name == webName }, stale},
		{"the pod resolves nothing outside", "probe-external", "it resolves no name outside the cluster from the pod",
			"example.com. A @10.244.1.2:53 over udp from the pod: SERVFAIL", func(p *probe) bool { return inPod(p) && p.Name == otherName },
			func(p *probe) { p.RCode, p.Answers = "SERVFAIL", nil }},
		{"the pod gets no reply of the Service", "probe-no-reply", "it does not reply from the pod",
			"@10.96.0.10:53 over tcp from the pod: no reply", func(p *probe) bool { return inPod(p) && p.Server == service }, silence},
		{"the pod gets no reply over UDP", "probe-no-reply", "it replies over TCP and not over UDP from the pod",
			"@10.96.0.10:53 over udp from the pod: no reply", func(p *probe) bool { return inPod(p) && p.Protocol == UDP }, silence},
		{"the pod gets no reply of the node cache", "probe-no-reply", "it does not reply from the pod",
			"@169.254.20.10:53 over udp from the pod: no reply", func(p *probe) bool {
				if inPod(p) && p.Server == service {
					p.Server, p.Role = "169.254.20.10:53", RoleNodeCache
				}
				return p.Role == RoleNodeCache
			}, silence},
		{"the pod gets no reply at all", "probe-no-reply", "it gets no reply from the cluster DNS",
			"@10.244.1.2:53 over udp from the pod: no reply", inPod, silence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			permit(s)
			s.Scope = Scope{Namespace: "shop", PodName: "db-0"}
			for i := range s.Probes {
				p := &s.Probes[i]
				if p.Means == "" {
					silence(p)
				}
				if tt.probes(p) {
					tt.change(p)
				}
			}
			r := Run(t.Context(), s)
			checkFault(t, r, strings.Fields(tt.find), tt.evidence)
			has := slices.ContainsFunc(r.Findings, func(f v1alpha1.DoctorFinding) bool { return f.Message == tt.message })
			if has != (tt.find != "") || !has && len(r.NotChecked) > 0 {
				t.Errorf("no finding %q, not checked: %+v", tt.message, r.NotChecked)
			}
		})
	}
}

// notChecked returns the reason why a check did not run, "" if it ran.
func notChecked(r v1alpha1.DoctorResult, code string) string {
	for _, n := range r.NotChecked {
		if slices.Contains(n.Checks, code) {
			return n.Why
		}
	}
	return ""
}

// TestRun_NetworkPart: the queries of this machine are left out if the time was over before the last
// one, and those of the pod are not.
func TestRun_NetworkPart(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	for i := range s.Probes {
		if s.Probes[i].Server == service {
			silence(&s.Probes[i])
		}
	}
	s.Probes = append(s.Probes, healthyMeans()...)
	s.Unread[Probes] = "late"
	r := Run(t.Context(), s)
	if got := notChecked(r, "probe-no-reply"); got != "late" || len(r.Findings) > 0 {
		t.Errorf("not checked: %q, findings %+v", got, r.Findings)
	}
	if got := notChecked(r, "probe-wrong-answer"); got != "" {
		t.Errorf("probe-wrong-answer: %q", got)
	}
}

// TestRun_Container: a container that was added, or may have been, is named, also if it failed.
func TestRun_Container(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	s.Scope = Scope{Namespace: "shop", PodName: "db-0"}
	s.Container, s.Unread[Ephemeral] = "c", "exit code 1"
	r := Run(t.Context(), s)
	want := "the ephemeral container c was added, unless the request failed: it cannot be removed, and stays until the pod ends"
	if r.Pod == nil || r.Pod.Notes[0] != want || notChecked(r, "probe-no-reply") != "exit code 1" {
		t.Errorf("%+v, not checked %+v", r.Pod, r.NotChecked)
	}
}

// TestPlan_Container: the container sends the questions of this machine once, and none that show a loss. Their number
// is bounded: they stay in the pod.
func TestPlan_Container(t *testing.T) {
	s, now := snapshotOf(t, healthy(t)), time.Now()
	servers := Servers(s, MeansContainer)
	var got, want []string
	for _, q := range Plan(s, MeansContainer, servers, otherName, now) {
		if q.Means != MeansContainer {
			t.Errorf("%+v", q)
		}
		got = append(got, q.String())
	}
	for _, q := range Plan(s, MeansNetwork, servers, otherName, now) {
		if q.Delay == 0 {
			want = append(want, q.String())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 || len(got) > len(servers)*MaxContainerQueries/MaxServers {
		t.Errorf("%d queries (-want +got)\n%s", len(got), diff)
	}
}

// TestServers_NodeCache: a pod queries the node cache that its kubelet gives it; this machine has no route to a
// link-local address of a node.
func TestServers_NodeCache(t *testing.T) {
	objects := healthy(t)
	data := objects["ConfigMap kube-system/kubelet-config"]["data"].(map[string]any)
	data["kubelet"] = strings.Replace(data["kubelet"].(string), "10.96.0.10", "169.254.20.10", 1)
	s := snapshotOf(t, objects)
	nodeCache := netip.MustParseAddrPort("169.254.20.10:53")
	want := Server{nodeCache, nodeCache, RoleNodeCache}
	if slices.Contains(Servers(s, MeansNetwork), want) || !slices.Contains(Servers(s, MeansContainer), want) {
		t.Errorf("%v from this machine, %v from the pod", Servers(s, MeansNetwork), Servers(s, MeansContainer))
	}
}

func TestParseQuery(t *testing.T) {
	for _, text := range []string{
		"udp,10.96.0.10:53,A,kubernetes.default.svc.cluster.local.", "tcp,[fd00::a]:53,AAAA,example.com.",
	} {
		q, err := ParseQuery(text)
		if err != nil || q.String() != text {
			t.Errorf("%s: %s, %v", text, q, err)
		}
	}
	for text, want := range map[string]string{
		"":                        "want PROTOCOL,SERVER,TYPE,NAME",
		"tls,10.96.0.10:53,A,a.":  `protocol "tls": want udp or tcp`,
		"udp,10.96.0.10,A,a.":     `server "10.96.0.10": want IP:PORT`,
		"udp,10.96.0.10:53,TXT,a": `type "TXT": want A or AAAA`,
		"udp,10.96.0.10:53,A,a":   `name "a": want a domain name with a final dot`,
	} {
		if _, err := ParseQuery(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestServers_Ports has pods that listen on another port than 53, behind a Service that lacks a
// protocol: the pods are queried where they listen, and not blamed.
func TestServers_Ports(t *testing.T) {
	for _, tt := range []struct {
		name     string
		slice    []int32 // ports of the EndpointSlice for UDP and TCP; 0: none
		declared []int32 // ports of the pod for UDP and TCP; 0: none
		udp, tcp uint16
	}{
		{"the Service leads to both", []int32{1053, 1054}, []int32{1053, 1054}, 1053, 1054},
		{"no UDP port", []int32{0, 1053}, []int32{1054, 1053}, 1054, 1053},
		{"no TCP port", []int32{1053, 0}, []int32{1053, 1054}, 1053, 1054},
		{"no port", []int32{0, 0}, []int32{1053, 1054}, 1053, 1054},
		{"no TCP port, and the pod declares none", []int32{1053, 0}, []int32{0, 0}, 1053, 1053},
		{"nothing is known", []int32{0, 0}, []int32{0, 0}, 53, 53},
		{"a wrong port of the Service", []int32{5353, 5353}, []int32{1053, 1053}, 5353, 5353},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			for i := range s.Slices {
				s.Slices[i].Ports = nil
				for j, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
					name := []string{"dns", "dns-tcp"}[j]
					if port := tt.slice[j]; port != 0 {
						p := discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &port}
						s.Slices[i].Ports = append(s.Slices[i].Ports, p)
					}
				}
			}
			for i := range s.Pods {
				c := &s.Pods[i].Spec.Containers[0]
				c.Ports = nil
				for j, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
					if port := tt.declared[j]; port != 0 {
						c.Ports = append(c.Ports, corev1.ContainerPort{Name: "dns", Protocol: protocol, ContainerPort: port})
					}
				}
			}
			endpoint := netip.MustParseAddr("10.244.1.2")
			want := Server{netip.AddrPortFrom(endpoint, tt.udp), netip.AddrPortFrom(endpoint, tt.tcp), RoleEndpoint}
			if servers := Servers(s, MeansNetwork); !slices.Contains(servers, want) {
				t.Errorf("no %v in %v", want, servers)
			}
		})
	}
}

// TestRun_Loss: a loss of 20 % at one of two servers is found in at least 99 of 100 runs, with the server, and nothing
// is found without a loss. Queries of the plan that are lost are sent again, unless they show the loss.
func TestRun_Loss(t *testing.T) {
	base := snapshotOf(t, healthy(t))
	base.Probes = nil
	servers := Servers(base, MeansNetwork)
	plan := Plan(base, MeansNetwork, servers, otherName, time.Unix(2_000_000_000, 0))
	answers := map[string][]string{apiName + "A": {"10.96.0.1"}, webName + "A": {"10.96.5.1"}, otherName + "A": {"192.0.2.80"},
		"dnsconfigurer-webhook.dnsconfigurer.svc.cluster.local.A": {"10.96.5.2"},
		"kube-dns.kube-system.svc.cluster.local.A":                {"10.96.0.10"}}
	attempts := func(q Query) int {
		if q.Delay > 0 {
			return 1
		}
		return 2 // as package gather
	}
	for loss, want := range map[float64][2]int{0: {0, 0}, 0.2: {99, 100}} {
		found := 0
		for seed := range uint64(100) {
			dice := rand.New(rand.NewPCG(seed, 1))
			s := *base
			for _, q := range plan {
				p := v1alpha1.DoctorProbe{Server: q.Server.String(), Role: q.Role, Protocol: q.Protocol, Name: q.Name, Type: q.Type,
					RCode: rcodeSuccess, Answers: answers[q.Name+q.Type], Micros: 900}
				for range attempts(q) {
					isLost := p.Server == replica2 && p.Protocol == UDP && dice.Float64() < loss
					if s.Probes = append(s.Probes, p); !isLost {
						break
					}
					silence(&s.Probes[len(s.Probes)-1])
				}
			}
			r := Run(t.Context(), &s)
			if slices.ContainsFunc(r.Findings, func(f v1alpha1.DoctorFinding) bool {
				return f.Code == "probe-unreliable" && f.Object == "DNS server "+replica2
			}) {
				found++
			}
			if len(r.Findings) > 1 {
				t.Fatalf("seed %d: %+v", seed, r.Findings)
			}
		}
		t.Logf("loss %v: found in %d of 100 runs", loss, found)
		if found < want[0] || found > want[1] {
			t.Errorf("loss %v: found in %d of 100 runs", loss, found)
		}
	}
}
