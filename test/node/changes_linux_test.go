// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// testChangedManifest changes a manifest: the pod keeps its name and gets another UID.
func (n node) testChangedManifest(t *testing.T) {
	pod := withAutopath(staticPod("changed", corev1.PodSpec{}))
	name := n.write(t, pod)
	uid := n.await(t, name, "ready", isReady).UID
	for _, change := range []func(){
		func() { pod.Spec.Hostname, pod.Spec.DNSConfig = "other", dnsConfig() },
		func() {
			pod.Spec.DNSPolicy = corev1.DNSDefault
			delete(pod.Annotations, policy.OverrideAnnotation)
		},
	} {
		change()
		n.write(t, pod)
		uid = n.await(t, name, "another", func(p corev1.Pod) bool { return p.UID != uid && isReady(p) }).UID
		dns, hostname := n.shim.render(t, pod)
		checkView(t, n.view(t, name), dns, hostname)
	}
}

// testRestarts creates a pod while the shim or containerd is stopped. Running pods must
// not be affected.
func (n node) testRestarts(t *testing.T) {
	for name, c := range map[string]struct{ leave, comeBack func(*testing.T) }{
		"shim-ends": {func(t *testing.T) {
			if code := n.shim.stop(t, "TERM"); code != "0" {
				t.Errorf("the shim ended with exit code %s", code)
			}
		}, func(t *testing.T) { n.shim.start(t) }},
		"shim-is-killed":       {func(t *testing.T) { n.shim.stop(t, "KILL") }, func(t *testing.T) { n.shim.start(t) }},
		"containerd-is-killed": {n.killContainerd, func(t *testing.T) { n.startContainerd(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			before := n.running(t)
			c.leave(t)
			pod := withAutopath(staticPod(name, corev1.PodSpec{}))
			n.write(t, pod)
			n.awaitFailure(t, podName(name))
			c.comeBack(t)
			dns, hostname := n.shim.render(t, pod)
			checkView(t, n.view(t, podName(name)), dns, hostname)
			n.checkRunning(t, before)
		})
	}
}

// awaitFailure returns when the kubelet has failed to start a pod.
func (n node) awaitFailure(t *testing.T, pod string) {
	t.Helper()
	if err := poll(func() error {
		for line := range strings.Lines(tail(filepath.Join(n.dir, "kubelet.log"), 1<<20)) {
			if strings.Contains(line, "Error syncing pod") && strings.Contains(line, pod) {
				return nil
			}
		}
		return fmt.Errorf("the kubelet has not tried to start %s", pod)
	}); err != nil {
		t.Fatal(err)
	}
}

// checkRunning checks that containers are the same as before, without a restart. A
// kubelet that has just started reports their state step by step, so the status is
// compared until it is complete.
func (n node) checkRunning(t *testing.T, before map[string][]corev1.ContainerStatus) {
	t.Helper()
	for name, was := range before {
		err := poll(func() error {
			pods, err := n.pods()
			if err != nil {
				return err
			}
			if diff := cmp.Diff(was, pods[name].Status.ContainerStatuses); diff != "" || !isReady(pods[name]) {
				return fmt.Errorf("ready: %t, containers (-before +after):\n%s", isReady(pods[name]), diff)
			}
			return nil
		})
		if err != nil {
			t.Errorf("pod %s: %v", name, err)
		}
	}
}

// testStaleFacts runs a shim with node facts that differ from the kubelet's.
func (n node) testStaleFacts(t *testing.T) {
	for name, fact := range map[string]string{
		"other-cluster-dns": "clusterDNS: [10.96.0.99]",
		"other-domain":      "clusterDomain: other.example",
		"other-host-file":   "resolvConf: /etc/resolv.conf",
	} {
		t.Run(name, func(t *testing.T) {
			n.restartShim(t, kubeletFacts+"\n  "+fact)
			n.checkPassed(t, name)
			if diff := cmp.Diff(map[string]int{"node_facts_mismatch": 1}, n.shim.decisions(t)); diff != "" {
				t.Errorf("the shim's metrics (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("kubelet changed", func(t *testing.T) {
		// The shim has a copy of the kubelet's file: it would read the new file within 10
		// seconds, in which a kubelet on a busy machine does not start.
		copied, err := os.ReadFile(n.configFile())
		if err != nil {
			t.Fatal(err)
		}
		n.shim.write(t, "kubelet-before.yaml", string(copied))
		n.restartShim(t, "kubeletConfig: kubelet-before.yaml")
		before := n.running(t)
		n.standalone.stop(t)
		n.dns = "10.96.0.11"
		n.standalone.start(t)
		n.checkPassed(t, "other-kubelet")
		// A kubelet that has just started does not know all sandboxes yet: it may start some that
		// run, which containerd refuses. The shim decides these, too.
		if d := n.shim.decisions(t); d["node_facts_mismatch"] == 0 || d["edited"] != 0 {
			t.Errorf("the shim's metrics: %v, want a mismatch and nothing edited", d)
		}
		n.checkRunning(t, before)

		n.restartShim(t, kubeletFacts)
		pod := withAutopath(staticPod("learned", corev1.PodSpec{}))
		dns, hostname := n.shim.render(t, pod)
		checkView(t, n.view(t, n.write(t, pod)), dns, hostname)
	})
}

// restartShim restarts the shim with these node facts and returns when the kubelet calls it.
func (n node) restartShim(t *testing.T, facts string) {
	t.Helper()
	n.shim.stop(t, "TERM")
	n.shim.configure(t, n.shim.configFile(), facts)
	n.shim.start(t)
	if err := poll(n.shim.ready); err != nil {
		t.Fatal(err)
	}
}

// checkPassed runs a pod with the autopath annotation, the first one of this shim, and
// checks that it gets the kubelet's configuration.
func (n node) checkPassed(t *testing.T, name string) {
	t.Helper()
	pod := withAutopath(staticPod(name, corev1.PodSpec{DNSConfig: dnsConfig()}))
	v := n.view(t, n.write(t, pod))
	delete(pod.Annotations, policy.OverrideAnnotation)
	n.checkKubelets(t, v, pod)
	if line := n.shim.lineAbout(t, podName(name)); !strings.Contains(line, "level=WARN") ||
		!strings.Contains(line, "outcome=node_facts_mismatch") {
		t.Errorf("the log does not warn of a mismatch: %q", line)
	}
}
