// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/reference"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const benchHost = `# made by the DHCP client
nameserver 192.0.2.53
nameserver 192.0.2.54
nameserver 2001:db8::53
search corp.example eu.corp.example dc4.corp.example internal.example lan
options timeout:2 attempts:3
`

func benchPods() []struct {
	name string
	pod  *corev1.Pod
} {
	two := "2"
	config := &corev1.PodDNSConfig{
		Nameservers: []string{"192.0.2.99"},
		Searches:    []string{"team.example", "corp.example"},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}, {Name: "edns0"}},
	}
	pod := func(p corev1.DNSPolicy, c *corev1.PodDNSConfig) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-7d4b9c6f5d-x2x7k", Namespace: "team-a", UID: "b7a3c1f0-0000-4000-8000-000000000000"},
			Spec:       corev1.PodSpec{DNSPolicy: p, DNSConfig: c},
		}
	}
	return []struct {
		name string
		pod  *corev1.Pod
	}{
		{"clusterfirst", pod(corev1.DNSClusterFirst, nil)},
		{"clusterfirst-dnsconfig", pod(corev1.DNSClusterFirst, config)},
		{"default", pod(corev1.DNSDefault, nil)},
		{"none", pod(corev1.DNSNone, config)},
	}
}

// BenchmarkPodDNS compares the time for a pod's DNS configuration, with the host file in
// memory. The kubelet reads the file for each pod, as engine=ours does; engine=ours-parse
// starts from its text and engine=ours-decide from its content, as the servers do. The
// names are for benchstat -col /engine in make bench. The engine also decides the
// hostname and records the reasons.
func BenchmarkPodDNS(b *testing.B) {
	path := filepath.Join(memoryDir(b), "resolv.conf")
	must.Succeed(b, os.WriteFile(path, []byte(benchHost), 0o600))
	kubelet := reference.New(&cases.Case{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}, path)
	engine := must.Get(policy.New(policy.Node{
		ClusterDNS:    []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ClusterDomain: "cluster.local",
		ResolvConf:    path,
	}))(b)
	ctx := klog.NewContext(b.Context(), logr.Discard())
	file := resolvconf.Parse(benchHost)

	engines := []struct {
		name string
		run  func(*corev1.Pod) (int, error)
	}{
		{"kubelet", func(pod *corev1.Pod) (int, error) {
			config, err := kubelet.GetPodDNS(ctx, pod)
			return len(config.GetServers()), err
		}},
		{"ours", func(pod *corev1.Pod) (int, error) {
			f, err := os.Open(path)
			if err != nil {
				return 0, err
			}
			defer f.Close()
			d := engine.Decide(kube.FromPod(pod), resolvconf.Read(f))
			return len(d.Config().Nameservers), nil
		}},
		{"ours-parse", func(pod *corev1.Pod) (int, error) {
			d := engine.Decide(kube.FromPod(pod), resolvconf.Parse(benchHost))
			return len(d.Config().Nameservers), nil
		}},
		{"ours-decide", func(pod *corev1.Pod) (int, error) {
			d := engine.Decide(kube.FromPod(pod), file)
			return len(d.Config().Nameservers), nil
		}},
	}
	for _, e := range engines {
		for _, p := range benchPods() {
			b.Run("engine="+e.name+"/pod="+p.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if n, err := e.run(p.pod); err != nil || n == 0 {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}
