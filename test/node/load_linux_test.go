// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// A load is a thousand lookups: four pods, each with programs that look up one name at a
// time.
const (
	programs = 5
	names    = 50                     // of each program
	kinds    = 6                      // of names
	pause    = 150 * time.Millisecond // before each lookup of a program: 130 lookups a second in all
	upgrade  = 6 * pause              // during upgrades: a busy machine takes seconds to start a node cache
	lookedUp = 4 * programs * names
)

// loadObjects returns the objects of the cluster: more Services than are looked up before
// the fault, so that some are looked up for the first time during it.
func loadObjects() string {
	text := "apiVersion: v1\nkind: Service\nmetadata: {namespace: payments, name: db}\nspec: {clusterIPs: [10.96.1.2]}\n" +
		"---\napiVersion: v1\nkind: Service\nmetadata: {namespace: kube-system, name: dns}\nspec: {clusterIP: None}\n" +
		"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n" +
		"metadata: {namespace: kube-system, name: dns, labels: {kubernetes.io/service-name: dns}}\n" +
		"endpoints: [{addresses: ['" + clusterDNS.String() + "']}]\n"
	for n := range names {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {namespace: %s, name: s%d}\n"+
			"spec: {clusterIPs: [10.96.2.%[2]d]}\n", namespace, n)
	}
	return text
}

const loadRecords = `
www.example.com.      5 IN A 198.51.100.1
*.example.com.        5 IN A 198.51.100.2
*.hosts.corp.example. 5 IN A 198.51.100.3
`

// lookupName returns the n-th name of the i-th program in a pod and its address, "" for a
// name that does not exist. Half of the names are unique to the program. At no time do
// all programs look up names of one kind.
func lookupName(p loadPod, i, n int) (name, want string) {
	own := fmt.Sprintf("%s%d-%d", p, i, n)
	switch (i + n) % kinds {
	case 0:
		return fmt.Sprintf("s%d", n), fmt.Sprintf("10.96.2.%d", n)
	case 1:
		return "db.payments", "10.96.1.2"
	case 2:
		return "www.example.com", "198.51.100.1"
	case 3:
		return own + ".example.com", "198.51.100.2"
	case 4: // in the second of the node's search domains
		return own + ".hosts", "198.51.100.3"
	default:
		return own, ""
	}
}

// loadPod is the resolv.conf and the C library of a pod.
type loadPod struct {
	library, policy string
	resolvConf      string
}

func (p loadPod) String() string { return p.library + "-" + p.policy }

// loadPods returns two pods of each library on a node with a node cache. One of them has autopath.
func loadPods(t *testing.T, m *machine) (pods []loadPod) {
	autopath, listed := facts(), facts()
	autopath.Autopath.ClusterDNSFallback = false
	listed.ClusterDNS = []netip.Addr{nodeCache}
	for _, p := range []struct {
		name string
		node policy.Node
		pod  *corev1.Pod
	}{{"list", listed, newPod("list", corev1.PodSpec{})}, {"autopath", autopath, autopathPod("autopath")}} {
		d := engine(t, p.node).Decide(kube.FromPod(p.pod), m.host())
		if d.Error != "" {
			t.Fatal(d.Error)
		}
		for _, library := range []string{"glibc", "musl"} {
			pods = append(pods, loadPod{library, p.name, d.Config().String()})
		}
	}
	return pods
}

// load is a running load.
type load struct {
	*machine
	ask  map[string]string // the program of each library
	pods []loadPod
	pid  string // of the shell that waits for all programs
}

// startLoad starts the programs. The programs of a pod share a mount namespace with its
// resolv.conf and write to one file.
func (m *machine) startLoad(t *testing.T, ask map[string]string, pause time.Duration) load {
	t.Helper()
	l := load{machine: m, ask: ask, pods: loadPods(t, m)}
	script := ""
	for _, p := range l.pods {
		m.write(t, p.String()+".conf", p.resolvConf)
		inside := l.mount(p)
		for i := range programs {
			inside += fmt.Sprintf("%s >>%s &\n", l.command(p, i, names, pause), l.output(p))
		}
		m.write(t, p.String()+".sh", inside+"wait\n")
		m.write(t, p.String()+".again.sh", l.mount(p)+l.command(p, 0, kinds, 0)+" | tr '\\n' ';'\n")
		script += fmt.Sprintf("unshare --mount sh %s &\n", filepath.Join(m.dir, p.String()+".sh"))
	}
	m.write(t, "load.sh", script+"wait\n")
	l.pid = m.spawn(t, `sh "$DIR/load.sh"`, "load.log")
	return l
}

// mount returns the command that gives a mount namespace the resolv.conf of a pod.
func (l load) mount(p loadPod) string {
	return fmt.Sprintf("mount --bind %s /etc/resolv.conf || exit 1\n", filepath.Join(l.dir, p.String()+".conf"))
}

// command returns the command of the i-th program in a pod, which looks up its first n names.
func (l load) command(p loadPod, i, n int, pause time.Duration) string {
	command := fmt.Sprintf("%s each %d", l.ask[p.library], pause.Milliseconds())
	for n := range n {
		name, _ := lookupName(p, i, n)
		command += " " + name
	}
	return command
}

func (l load) output(p loadPod) string { return filepath.Join(l.dir, p.String()+".lookups") }

// lines returns the completed lookups of a pod.
func (l load) lines(p loadPod) []string {
	text, _ := os.ReadFile(l.output(p)) // the file exists from the first lookup on
	lines := strings.SplitAfter(string(text), "\n")
	return lines[:len(lines)-1]
}

func (l load) done() (n int) {
	for _, p := range l.pods {
		n += len(l.lines(p))
	}
	return n
}

// reach waits until percent of the lookups are complete.
func (l load) reach(t *testing.T, percent int) {
	t.Helper()
	await(t, func() error {
		if n := l.done(); n < lookedUp*percent/100 {
			return fmt.Errorf("%d of %d lookups have ended", n, lookedUp)
		}
		return nil
	})
}

// wait waits until all lookups are complete.
func (l load) wait(t *testing.T) {
	t.Helper()
	l.reach(t, 100)
	l.run(t, "wait "+l.pid+"; echo ended")
}

// tally counts the results of a pod's lookups.
type tally struct {
	found, absent int // correctly
	again         int // EAI_AGAIN
	wrong         []string
	delays        []time.Duration // in order
}

// recovers waits until lookups of each kind succeed in a pod.
func (l load) recovers(t *testing.T, p loadPod) {
	t.Helper()
	await(t, func() error {
		out := l.run(t, fmt.Sprintf("unshare --mount sh %s; echo", filepath.Join(l.dir, p.String()+".again.sh")))
		lines := strings.Split(strings.TrimSuffix(out, ";"), ";")
		c := p.tally(t, lines)
		switch {
		case len(c.wrong) > 0:
			t.Errorf("%s: wrong replies after the fault: %q", p, c.wrong)
		case c.again > 0 || len(lines) != kinds:
			return fmt.Errorf("%s: lookups fail after the fault: %q", p, lines)
		}
		return nil
	})
}

// tally counts the results in lines of a pod.
func (p loadPod) tally(t *testing.T, lines []string) (c tally) {
	t.Helper()
	want := map[string]string{}
	for i := range programs {
		for n := range names {
			name, addr := lookupName(p, i, n)
			want[name] = addr
		}
	}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		took, out, _ := strings.Cut(rest, " ")
		micros, err := strconv.ParseInt(took, 10, 64)
		if err != nil {
			t.Fatalf("%s: %q", p, line)
		}
		c.delays = append(c.delays, time.Duration(micros)*time.Microsecond)
		switch got := found(out); {
		case got == "error EAI_AGAIN":
			c.again++
		case got == want[name] && got != "":
			c.found++
		case got == "error EAI_NONAME" && want[name] == "":
			c.absent++
		default:
			c.wrong = append(c.wrong, fmt.Sprintf("%s: %s, want %q", name, got, want[name]))
		}
	}
	slices.Sort(c.delays)
	return c
}

// part returns a quantile of the delays, in thousandths.
func (c tally) part(thousandths int) time.Duration {
	return c.delays[(len(c.delays)-1)*thousandths/1000].Round(time.Millisecond / 10)
}

// found returns the result of the program ask: sorted addresses, or the name of an error.
func found(out string) string {
	if failure, _, ok := strings.Cut(out, ":"); ok && strings.HasPrefix(failure, "error ") {
		return failure
	}
	addrs := strings.Fields(out)
	slices.Sort(addrs)
	return strings.Join(addrs, " ")
}
