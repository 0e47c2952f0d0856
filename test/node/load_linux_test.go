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

// A load is a thousand lookups: four pods, each with programs that look one name up after
// the other.
const (
	programs = 5
	names    = 50                     // of a program
	pause    = 150 * time.Millisecond // of a program, before each lookup: 130 lookups a second in all
	upgrade  = 3 * pause              // while a node cache is upgraded: a busy machine takes seconds to start one
	lookedUp = 4 * programs * names
)

// loadObjects are the names of the cluster: more Services than are asked for before
// something fails, so that some are asked for the first time while it does.
func loadObjects() string {
	text := "apiVersion: v1\nkind: Service\nmetadata: {namespace: payments, name: db}\nspec: {clusterIPs: [10.96.1.2]}\n"
	for n := range names {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {namespace: %s, name: s%d}\nspec: {clusterIPs: [10.96.2.%[2]d]}\n", namespace, n)
	}
	return text
}

const loadRecords = `
www.example.com.      5 IN A 198.51.100.1
*.example.com.        5 IN A 198.51.100.2
*.hosts.corp.example. 5 IN A 198.51.100.3
`

// nameOf is the n-th name of the i-th program in a pod, and what is found; "": nothing.
// Half of them nobody else asks for. At no time do all programs ask for names of one kind.
func nameOf(p loadPod, i, n int) (name, want string) {
	own := fmt.Sprintf("%s%d-%d", p, i, n)
	switch (i + n) % 6 {
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

// loadPod is a pod as far as its lookups go: the resolv.conf that the engine gives it,
// and a C library.
type loadPod struct {
	library, policy string
	resolvConf      string
}

func (p loadPod) String() string { return p.library + "-" + p.policy }

// loadPods are one of each library and policy on a node whose pods all ask the node cache,
// and with fallback the cluster DNS if that does not answer.
func loadPods(t *testing.T, m *machine, fallback bool) (pods []loadPod) {
	autopath, listed := facts(), facts()
	autopath.Autopath.ClusterDNSFallback = fallback
	listed.ClusterDNS = []netip.Addr{nodeCache}
	if fallback {
		listed.ClusterDNS = append(listed.ClusterDNS, clusterDNS)
	}
	for _, p := range []struct {
		name string
		node policy.Node
		pod  *corev1.Pod
	}{
		{"autopath", autopath, autopathPod("autopath")},
		{"list", listed, newPod("list", corev1.PodSpec{})},
	} {
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

// load is one that runs.
type load struct {
	*machine
	pods []loadPod
	pid  string // of the shell that waits for all programs
}

// startLoad starts the programs. Those of a pod are in a mount namespace that has its
// resolv.conf, and write to one file. ask has a program for each library.
func (m *machine) startLoad(t *testing.T, ask map[string]string, fallback bool, pause time.Duration) load {
	t.Helper()
	l := load{machine: m, pods: loadPods(t, m, fallback)}
	script := ""
	for _, p := range l.pods {
		m.write(t, p.String()+".conf", p.resolvConf)
		inside := fmt.Sprintf("mount --bind %s /etc/resolv.conf || exit 1\n", filepath.Join(m.dir, p.String()+".conf"))
		for i := range programs {
			inside += fmt.Sprintf("%s each %d", ask[p.library], pause.Milliseconds())
			for n := range names {
				name, _ := nameOf(p, i, n)
				inside += " " + name
			}
			inside += fmt.Sprintf(" >>%s &\n", l.output(p))
		}
		m.write(t, p.String()+".sh", inside+"wait\n")
		script += fmt.Sprintf("unshare --mount sh %s &\n", filepath.Join(m.dir, p.String()+".sh"))
	}
	m.write(t, "load.sh", script+"wait\n")
	l.pid = m.spawn(t, `sh "$DIR/load.sh"`, "load.log")
	return l
}

func (l load) output(p loadPod) string { return filepath.Join(l.dir, p.String()+".lookups") }

// lines are the lookups of a pod that have ended.
func (l load) lines(p loadPod) []string {
	text, _ := os.ReadFile(l.output(p)) // the file comes with the first
	lines := strings.SplitAfter(string(text), "\n")
	return lines[:len(lines)-1]
}

func (l load) done() (n int) {
	for _, p := range l.pods {
		n += len(l.lines(p))
	}
	return n
}

// reach waits until so many percent of the lookups have ended.
func (l load) reach(t *testing.T, percent int) {
	t.Helper()
	err := poll(func() error {
		if n := l.done(); n < lookedUp*percent/100 {
			return fmt.Errorf("%d of %d lookups have ended", n, lookedUp)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wait returns when all lookups have ended.
func (l load) wait(t *testing.T) {
	t.Helper()
	l.reach(t, 100)
	l.run(t, "wait "+l.pid+"; echo ended")
}

// tally is what the lookups of a pod have given.
type tally struct {
	found, absent int // as it is
	again         int // EAI_AGAIN: the program may try again
	late          int // of these, those among the last of all
	wrong         []string
	delays        []time.Duration // in order
}

func (l load) tally(t *testing.T, p loadPod) (c tally) {
	t.Helper()
	want := map[string]string{}
	for i := range programs {
		for n := range names {
			name, addr := nameOf(p, i, n)
			want[name] = addr
		}
	}
	lines := l.lines(p)
	for i, line := range lines {
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
			if i >= len(lines)-programs {
				c.late++
			}
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

// part is the delay that so many of a thousand lookups do not exceed.
func (c tally) part(thousandths int) time.Duration {
	return c.delays[(len(c.delays)-1)*thousandths/1000].Round(time.Millisecond / 10)
}
