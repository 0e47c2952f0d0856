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

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	agent "github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// forged is what a pod writes into its file.
const forged = "nameserver 203.0.113.66"

// attack is what the root of a container does to its file while the host's file changes.
type attack struct {
	name, refresh string // of the pod, and its annotation
	script        string
	end           string // the script that ends it
	drift         string // of the file then; "": not checked
	result        string // of the command refresh then; "": it succeeds
}

// inBackground returns a script that repeats command until endLoop is run. The loop has no output:
// ExecSync returns when all processes that have its output have ended.
func inBackground(command string) string {
	loop := "busybox touch /started; while [ ! -e /stop ]; do " + command + "; done; busybox touch /stopped"
	return "(" + loop + ") </dev/null >/dev/null 2>&1 &\nwhile [ ! -e /started ]; do busybox sleep 0.1; done"
}

const endLoop = "busybox touch /stop; while [ ! -e /stopped ]; do busybox sleep 0.1; done; "

var attacks = []attack{
	{"truncates", "", inBackground(": >/etc/resolv.conf"), endLoop, "", ""}, // an empty file may be written any time
	{"rewrites", "", inBackground("echo " + forged + " >/etc/resolv.conf"),
		endLoop + "echo " + forged + " >/etc/resolv.conf", "different", "refreshed"},
	{"rewrites-once", "", "echo " + forged + " >/etc/resolv.conf", "", "different", "refreshed"},
	{"rewrites-always", "always", "echo " + forged + " >/etc/resolv.conf", "", "", "unchanged"},
	{"rewrites-with-nul", "", `busybox printf '` + forged + `\0\n' >/etc/resolv.conf`, "", "different", "refreshed"},
	{"appends", "", "echo " + forged + " >>/etc/resolv.conf", "", "different", "refreshed"},
	{"forges", "", "echo '# dnsconfigurer: restored' >>/etc/resolv.conf", "", "", "unchanged"},
	{"fills", "", "busybox dd if=/dev/zero of=/etc/resolv.conf bs=64k count=16 2>/dev/null", "", "unreadable", "failed"},
	{"forbids", "", "busybox chmod 0 /etc/resolv.conf", "", "unreadable", "failed"},
	{"gives-away", "", "busybox chown 1000 /etc/resolv.conf", "", "unreadable", "failed"},
	{"links", "", `busybox ln -sf /etc/hosts /etc/resolv.conf && exit 1
		busybox mv /etc/resolv.conf /x && exit 1
		busybox ln /etc/resolv.conf /x && exit 1
		busybox rm -f /etc/resolv.conf && exit 1
		exit 0`, "", "", "unchanged"},
}

// hostilePod is a running pod.
type hostilePod struct {
	name, container string
	neighbors       map[string]string // the other files in the directory of its file
}

// startHostile starts a pod with the host's DNS, whose annotation refresh has a value, or "".
func (n *nri) startHostile(t *testing.T, name, refresh string) (h hostilePod) {
	t.Helper()
	pod := nriPod(name, corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, "")
	if refresh != "" {
		withAnnotation(pod, "dnsconfigurer.dev/refresh", refresh)
	}
	h.name, h.container = pod.Name, n.startPod(t, pod)
	n.awaitPod(t, h.name, decided)
	h.neighbors = n.neighbors(t, h.name)
	return h
}

// neighbors returns the texts of the other files in the directory of the file of a pod.
func (n *nri) neighbors(t *testing.T, pod string) map[string]string {
	t.Helper()
	path := n.awaitPod(t, pod, func(p v1alpha1.NodePod) bool { return p.Path != "" }).Path
	directory := filepath.Join(fmt.Sprintf("/proc/%d/root", n.init.Process.Pid), filepath.Dir(path))
	entries := must.Get(os.ReadDir(directory))(t)
	texts := map[string]string{}
	for _, e := range entries {
		text := e.Type().String()
		if e.Type().IsRegular() && e.Name() != filepath.Base(path) {
			content := must.Get(os.ReadFile(filepath.Join(directory, e.Name())))(t)
			text += string(content)
		}
		texts[e.Name()] = text
	}
	return texts
}

// sh runs a script in a container.
func (n *nri) sh(t *testing.T, container, script string) {
	t.Helper()
	ctx, cancel := within(t.Context())
	defer cancel()
	must.Get(n.exec(ctx, container, "/bin/busybox", "sh", "-c", script))(t)
}

// testHostile changes the host's file while containers attack theirs. Each attack has an effect on
// the file of its own pod only, and the agent serves all others.
func (n *nri) testHostile(t *testing.T) {
	defer n.write(t, "etc/resolv.conf", hostResolvConf)
	first, last := n.startHostile(t, "a-first", ""), n.startHostile(t, "z-last", "") // pods are refreshed by their names
	attackers := map[string]hostilePod{}
	for _, a := range attacks {
		attackers[a.name] = n.startHostile(t, a.name, a.refresh)
	}
	for _, a := range attacks {
		n.sh(t, attackers[a.name].container, a.script)
	}
	n.changeHost(t, secondHost, map[string]resolvconf.Config{
		first.container: configOf(secondHost), last.container: configOf(secondHost),
	})
	for _, a := range attacks {
		if a.end != "" {
			n.sh(t, attackers[a.name].container, a.end)
		}
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { n.checkAttack(t, a, attackers[a.name]) })
	}
	t.Run("many refreshes", func(t *testing.T) { n.refreshOften(t, first) })
	n.awaitConfig(t, last.container, configOf(secondHost))
	for _, h := range []hostilePod{first, last} {
		if diff := cmp.Diff(h.neighbors, n.neighbors(t, h.name)); diff != "" {
			t.Errorf("files beside that of %s (-before +after):\n%s", h.name, diff)
		}
	}
	for _, address := range []string{agentAddress, relayAddress} {
		n.await(t, address, "/readyz")
	}
}

// checkAttack checks the state of a pod after its attack has ended, and refreshes it by command.
func (n *nri) checkAttack(t *testing.T, a attack, h hostilePod) {
	p := n.awaitPod(t, h.name, func(p v1alpha1.NodePod) bool { return a.drift == "" || p.Drift == a.drift })
	if a.drift == "different" && !strings.Contains(p.Actual, forged) {
		t.Errorf("the file of the pod was overwritten:\n%s", p.Actual)
	}
	want := "shop/" + h.name + ": " + a.result
	if output, code := n.command(t, "refresh shop/"+h.name); (code == "0") != (a.result != "failed") ||
		!strings.HasPrefix(output, want) {
		t.Errorf("exit code %s: %s, want %s", code, output, want)
	}
	if a.result != "failed" {
		n.awaitConfig(t, h.container, configOf(secondHost))
	}
	if diff := cmp.Diff(h.neighbors, n.neighbors(t, h.name)); diff != "" {
		t.Errorf("files beside that of the pod (-before +after):\n%s", diff)
	}
}

// refreshOften refreshes a pod many times with one of two contents: when its file has had both, its
// size stays the same, and the file still has the kubelet's text.
func (n *nri) refreshOften(t *testing.T, h hostilePod) {
	client := agent.StatusClient{Socket: filepath.Join(n.dir, "agent-status.sock")}
	refresh := func(times int) (size int) {
		t.Helper()
		ctx, cancel := within(t.Context())
		defer cancel()
		for i := range times {
			n.write(t, "etc/resolv.conf", []string{thirdHost, secondHost}[i%2])
			must.Get(client.Refresh(ctx, "shop/"+h.name))(t)
		}
		n.awaitConfig(t, h.container, configOf(secondHost))
		return len(n.awaitPod(t, h.name, func(p v1alpha1.NodePod) bool { return p.Drift == "" }).Actual)
	}
	if first, last := refresh(2), refresh(50); first != last {
		t.Errorf("the file had %d bytes, and has %d", first, last)
	}
	if output, code := n.command(t, "restore shop/"+h.name); code != "0" {
		t.Errorf("exit code %s: %s", code, output)
	}
	n.awaitConfig(t, h.container, configOf(hostResolvConf))
}
