// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestNode boots one machine and runs every pod of the package on it.
func TestNode(t *testing.T) {
	m := newMachine(t, "")
	t.Run("limits", m.testLimits)
	t.Run("outcomes", m.testOutcomes)
	t.Run("injection", m.testInjection)
	t.Run("restart of containerd", m.testRestart)
}

// facts are those of the machine's kubelet.
func facts() policy.Node {
	return policy.Node{
		AllowedOverrides: []policy.Policy{policy.Default, policy.None},
		ClusterDNS:       []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ClusterDomain:    "cluster.local",
		ResolvConf:       "/etc/resolv.conf",
		Autopath:         policy.Autopath{NodeCache: netip.MustParseAddr("169.254.20.10")},
	}
}

func engine(t testing.TB, n policy.Node) *policy.Engine {
	t.Helper()
	return must.Get(policy.New(n))(t)
}

// host reads the machine's resolv.conf.
func (m *machine) host() resolvconf.File {
	f, err := os.Open(filepath.Join(m.dir, "etc/resolv.conf"))
	if err != nil {
		return resolvconf.File{Err: err}
	}
	defer f.Close()
	return resolvconf.Read(f)
}

func (m *machine) hostFiles() cri.HostFiles {
	host := m.host()
	return cri.HostFiles{Pods: host, Kubelet: host}
}

// shim is a shim in front of the machine's containerd, and a kubelet that uses it.
type shim struct {
	kubelet
	reports chan cri.Report
}

// hook returns a hook that finds pods and the machine's host file.
func (m *machine) hook(t *testing.T, pods ...*corev1.Pod) *cri.Hook {
	t.Helper()
	known := map[string]policy.Pod{}
	for _, p := range pods {
		known[string(p.UID)] = kube.FromPod(p)
	}
	return &cri.Hook{
		Engine:    engine(t, facts()),
		HostFiles: m.hostFiles,
		Lookup: func(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
			if p, ok := known[s.UID]; ok {
				return p, nil
			}
			return policy.Pod{}, cri.ErrUnknownPod
		},
	}
}

// startShim runs a shim until t ends. The shim's channel receives the reports of hook.
func (m *machine) startShim(t *testing.T, hook *cri.Hook) shim {
	t.Helper()
	dir := must.Get(os.MkdirTemp(m.dir, "shim"))(t)
	path := filepath.Join(dir, "shim.sock")
	l := must.Get(cri.Listen(path))(t)
	reports := make(chan cri.Report, 100) // more than any test causes before it reads them
	hook.Report = func(r cri.Report) { reports <- r }
	s := &cri.Shim{Listener: l, Runtime: "unix://" + m.endpoint(), Metrics: cri.NewMetrics(nil), Log: slog.New(slog.DiscardHandler)}
	s.SetHook(hook)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the shim failed: %v", err)
		}
	})
	return shim{m.kubelet(t, path), reports}
}

// newPod returns a pod with the defaults of the API server.
func newPod(name string, spec corev1.PodSpec) *corev1.Pod {
	kube.SetDefaults(&spec)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID("uid-of-" + name),
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"example.com/a": "b"},
		},
		Spec: spec,
	}
}

// decide returns the decision for pod in a shim with hook.
func (m *machine) decide(hook *cri.Hook, pod *corev1.Pod) policy.Decision {
	return hook.Engine.Decide(kube.FromPod(pod), m.host())
}

// withAnnotation sets an annotation of pod, and returns pod.
func withAnnotation(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod.Annotations[key] = value
	return pod
}

// check compares the view of a container of pod with d.
func check(t *testing.T, v view, pod *corev1.Pod, d policy.Decision) {
	t.Helper()
	hostname := d.Hostname
	if pod.Spec.HostNetwork {
		hostname = nodeName
	}
	if diff := cmp.Diff(d.Config(), v.config()); diff != "" {
		t.Errorf("resolv.conf (-want +got):\n%s\nthe file:\n%s", diff, v.ResolvConf)
	}
	if ignored := resolvconf.Parse(v.ResolvConf).Ignored; ignored != nil {
		t.Errorf("the file has lines without effect: %v\n%s", ignored, v.ResolvConf)
	}
	got := [...]string{v.Hostname, v.HostnameEnv, v.HostnameFile}
	if diff := cmp.Diff([...]string{hostname, hostname, hostname}, got); diff != "" {
		t.Errorf("uname, $HOSTNAME, /etc/hostname (-want +got):\n%s", diff)
	}
}

// nextReport returns the next report, which must be about pod.
func (s shim) nextReport(t *testing.T, pod *corev1.Pod) cri.Report {
	t.Helper()
	select {
	case r := <-s.reports:
		if got, want := [...]string{r.Sandbox.Namespace, r.Sandbox.Name, r.Sandbox.UID},
			[...]string{pod.Namespace, pod.Name, string(pod.UID)}; got != want {
			t.Fatalf("report about %q, want %q", got, want)
		}
		return r
	default: // Report is called before the request is forwarded
		t.Fatal("no report")
		return cri.Report{}
	}
}

// runEdited runs pod through a shim, which must edit the request, and returns what its container sees:
// the engine's decision.
func (m *machine) runEdited(t *testing.T, pod *corev1.Pod, request ...func(*runtimeapi.PodSandboxConfig)) view {
	t.Helper()
	hook := m.hook(t, pod)
	s := m.startShim(t, hook)
	config := s.sandboxOf(hook.Engine, m.host(), pod)
	for _, change := range request {
		change(config)
	}
	v := must.Get(s.runPod(t.Context(), config))(t)
	if r := s.nextReport(t, pod); r.Outcome != cri.Edited {
		t.Errorf("the shim reports %s (%s), want %s", r.Outcome, r.Detail, cri.Edited)
	}
	check(t, v, pod, m.decide(hook, pod))
	return v
}

// dnsConfig returns a dnsConfig that adds to every list of the base.
func dnsConfig() *corev1.PodDNSConfig {
	ndots := "2"
	return &corev1.PodDNSConfig{
		Nameservers: []string{"203.0.113.53"},
		Searches:    []string{"extra.example", "shop.svc.cluster.local"},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: &ndots}, {Name: "edns0"}},
	}
}
