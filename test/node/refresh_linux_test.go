// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// The host's file after changes.
const (
	secondHost = "nameserver 192.0.2.54\nnameserver 192.0.2.55\nsearch node.example lab.example\n"
	thirdHost  = "nameserver 192.0.2.56\nsearch corp.example\noptions timeout:2\n"
)

func configOf(text string) resolvconf.Config { return resolvconf.Parse(text).Config() }

// command runs a command of the program inside and returns its output and exit code.
func (n *nri) command(t testing.TB, arguments string) (output, code string) {
	t.Helper()
	socket := ` --socket "$DIR/agent-status.sock"`
	code = n.run(t, fmt.Sprintf(`{ %s %s%s >"$DIR/output" 2>&1; echo $?; }`, n.program, arguments, socket))
	text := must.Get(os.ReadFile(filepath.Join(n.dir, "output")))(t)
	return string(text), code
}

// awaitPod returns a pod as the command pods prints it, when good accepts it.
func (n *nri) awaitPod(t testing.TB, name string, good func(v1alpha1.NodePod) bool) (p v1alpha1.NodePod) {
	t.Helper()
	await(t, func() error {
		output, code := n.command(t, "pods -o json shop/"+name)
		var pods v1alpha1.NodePods
		if err := json.Unmarshal([]byte(output), &pods); err != nil || code != "0" || len(pods.Pods) != 1 {
			return fmt.Errorf("exit code %s, %v:\n%s", code, err, output)
		}
		if p = pods.Pods[0]; !good(p) {
			return fmt.Errorf("the pod has another state: %+v", p)
		}
		return nil
	})
	return p
}

// decided reports whether there is a decision for the pod.
func decided(p v1alpha1.NodePod) bool { return p.Outcome != "" }

// changeHost changes the host's file and returns when all containers have want, the time until
// the first and the last had it.
func (n *nri) changeHost(t *testing.T, text string, want map[string]resolvconf.Config) (first, last time.Duration) {
	t.Helper()
	began := time.Now()
	n.write(t, "etc/resolv.conf", text)
	for container, config := range want {
		n.awaitConfig(t, container, config)
		last = time.Since(began)
		if first == 0 {
			first = last
		}
	}
	return first, last
}

// testRefresh changes the host's file while pods run.
func (n *nri) testRefresh(t *testing.T) {
	defer n.write(t, "etc/resolv.conf", hostResolvConf)
	start := func(name string, spec corev1.PodSpec, annotation string) (pod, container string) {
		p := nriPod(name, spec, "")
		if annotation != "" {
			withAnnotation(p, "dnsconfigurer.dev/refresh", annotation)
		}
		return p.Name, n.startPod(t, p)
	}
	usesHost := corev1.PodSpec{DNSPolicy: corev1.DNSDefault}
	followed := map[string]resolvconf.Config{}
	name := ""
	for i := range 5 {
		pod, container := start(fmt.Sprintf("follows-%d", i), usesHost, "")
		n.awaitPod(t, pod, decided)
		followed[container], name = configOf(secondHost), pod
	}
	changed, changedContainer := start("changes", usesHost, "")
	neverPod, never := start("never", usesHost, "never")
	n.awaitPod(t, changed, decided)
	n.awaitPod(t, neverPod, decided)
	const own = "nameserver 203.0.113.66"
	must.Get(n.exec(t.Context(), changedContainer, "/bin/busybox", "sh", "-c", "echo "+own+" >/etc/resolv.conf"))(t)
	first, last := n.changeHost(t, secondHost, followed)
	t.Logf("%d running pods follow the host's file: the first seen after %v, the last after %v",
		len(followed), first.Round(time.Millisecond), last.Round(time.Millisecond))
	n.awaitConfig(t, changedContainer, configOf(own))
	n.awaitConfig(t, never, configOf(hostResolvConf))
	if p := n.awaitPod(t, changed, decided); p.Drift != "different" || p.Policy != "Default" || p.Source != "spec" {
		t.Errorf("the pod that has changed its file: %+v", p)
	}

	if output, code := n.command(t, "restore shop/"+name); code != "0" || output != "shop/"+name+": restored\n" {
		t.Fatalf("exit code %s: %s", code, output)
	}
	var restored string
	for container := range followed {
		v := must.Get(n.view(t.Context(), container))(t)
		if v.config().Equal(configOf(hostResolvConf)) {
			restored = container
			delete(followed, container)
		} else {
			followed[container] = configOf(thirdHost)
		}
	}
	if restored == "" {
		t.Fatal("no container has the kubelet's text again")
	}
	n.changeHost(t, thirdHost, followed)
	n.awaitConfig(t, restored, configOf(hostResolvConf))
	output, code := n.command(t, "pods")
	if code != "0" || !strings.Contains(output, "restored") {
		t.Errorf("exit code %s:\n%s", code, output)
	}
	t.Logf("dnsconfigurer pods:\n%s", output)
	output, _ = n.command(t, "pods shop/"+changed)
	t.Logf("dnsconfigurer pods shop/%s:\n%s", changed, output)
	for _, pod := range []string{name, changed} {
		if output, code := n.command(t, "refresh shop/"+pod); code != "0" || output != "shop/"+pod+": refreshed\n" {
			t.Errorf("exit code %s: %s", code, output)
		}
	}
	n.awaitConfig(t, restored, configOf(thirdHost))
	n.awaitConfig(t, changedContainer, configOf(thirdHost))
	if output, code := n.command(t, "refresh shop/unknown"); code != "1" || !strings.Contains(output, "unknown pod: shop/unknown") {
		t.Errorf("exit code %s: %s", code, output)
	}
	output, _ = n.command(t, "status")
	t.Logf("dnsconfigurer status:\n%s", output)
}

// testRestarts changes the host's file while the agent does not run and containerd is restarted. A pod
// that was not changed follows as soon as a new pod has confirmed the node facts; a pod that has
// changed its file keeps that.
func (n *nri) testRestarts(t *testing.T) {
	defer n.write(t, "etc/resolv.conf", hostResolvConf)
	usesHost := corev1.PodSpec{DNSPolicy: corev1.DNSDefault}
	start := func(name string) (container string) {
		pod := nriPod(name, usesHost, "")
		container = n.startPod(t, pod)
		n.awaitPod(t, pod.Name, decided)
		return container
	}
	older, changed := start("older"), start("changed-meanwhile")
	n.end(t, n.agent, "TERM")
	const own = "nameserver 203.0.113.66"
	must.Get(n.exec(t.Context(), changed, "/bin/busybox", "sh", "-c", "echo "+own+" >/etc/resolv.conf"))(t)
	n.write(t, "etc/resolv.conf", secondHost)
	n.killContainerd(t)
	n.startContainerd(t)
	n.startAgent(t)
	n.await(t, relayAddress, "/readyz")
	n.awaitConfig(t, older, configOf(hostResolvConf))
	newer := start("newer")
	n.awaitConfig(t, newer, configOf(secondHost))
	n.awaitConfig(t, older, configOf(secondHost))
	n.changeHost(t, thirdHost, map[string]resolvconf.Config{older: configOf(thirdHost), newer: configOf(thirdHost)})
	n.awaitConfig(t, changed, configOf(own))
}
