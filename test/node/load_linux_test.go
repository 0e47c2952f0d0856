// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// A load is lookups of pods, each with programs that look up one name at a time, again and again.
type load struct {
	programs int // in all
	names    int // that each of them looks up
}

var (
	few  = load{16, 50}  // 150 lookups a second, many of them for the first time
	many = load{216, 12} // 2,000 lookups a second
)

const (
	kinds    = 6 // of names
	variants = 5 // of the names of a pod
)

// pause returns the pause before each lookup of the i-th program in a pod: 100 ms on average, and different, so
// that the programs do not look up names at the same time.
func pause(i int) time.Duration { return time.Duration(90+i%20) * time.Millisecond }

// loadObjects returns the objects of the cluster: more Services than are looked up before
// the fault, so that some are looked up for the first time during it.
func loadObjects() string {
	text := "apiVersion: v1\nkind: Service\nmetadata: {namespace: payments, name: db}\nspec: {clusterIPs: [10.96.1.2]}\n" +
		"---\napiVersion: v1\nkind: Service\nmetadata: {namespace: kube-system, name: dns}\nspec: {clusterIP: None}\n" +
		"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n" +
		"metadata: {namespace: kube-system, name: dns, labels: {kubernetes.io/service-name: dns}}\n" +
		"endpoints: [{addresses: ['" + clusterDNS.String() + "']}]\n"
	for n := range few.names {
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
// name that does not exist. Half of the names are unique to the pod and the variant. At no time do
// all programs look up names of one kind.
func lookupName(p loadPod, i, n int) (name, want string) {
	own := fmt.Sprintf("%s%d-%d", p, i%variants, n)
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

// loadPods returns a pod of each library on a node with a node cache, and with autopath another one.
func loadPods(t *testing.T, m *machine, autopath bool) (pods []loadPod) {
	listed, expanded := facts(), facts()
	listed.ClusterDNS = []netip.Addr{nodeCache}
	expanded.Autopath.ClusterDNSFallback = false
	for _, p := range []struct {
		name string
		node policy.Node
		pod  *corev1.Pod
	}{{"list", listed, newPod("list", corev1.PodSpec{})}, {"autopath", expanded, autopathPod("autopath")}} {
		if p.name == "autopath" && !autopath {
			continue
		}
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

// runningLoad is a running load.
type runningLoad struct {
	*machine
	size    load
	ask     map[string]string // the program of each library
	pods    []loadPod
	pid     string    // of the shell that waits for all programs
	running io.Closer // ends them
	began   time.Time
}

// startLoad starts the programs. Those of a pod share a network and a resolv.conf, and write to one file.
func (m *machine) startLoad(t *testing.T, ask map[string]string, pods []loadPod, size load) *runningLoad {
	t.Helper()
	l := &runningLoad{machine: m, size: size, ask: ask, pods: pods}
	script, input := "", filepath.Join(m.dir, "running")
	for i, p := range l.pods {
		m.addPod(t, p, i+1)
		inside := ""
		for i := range size.programs / len(pods) {
			how := fmt.Sprintf("during %d", pause(i).Milliseconds())
			inside += fmt.Sprintf("%s <%s >>%s &\n", l.command(p, how, i, size.names), input, l.output(p))
		}
		m.write(t, p.String()+".sh", inside+"wait\n")
		m.write(t, p.String()+".again.sh", l.command(p, "each 0", 0, kinds)+" | tr '\\n' ';'\n")
		script += l.inside(p, ".sh") + " &\n"
	}
	m.write(t, "load.sh", script+"wait\n")
	must.Succeed(t, unix.Mkfifo(input, 0o600))
	l.pid = m.spawn(t, `sh "$DIR/load.sh"`, "load.log")
	var err error
	if l.running, err = os.OpenFile(input, os.O_WRONLY, 0); err != nil { // when the first program opens it
		t.Fatal(err)
	}
	t.Cleanup(func() { l.running.Close() })
	l.began = time.Now()
	return l
}

// addPod adds the network of a pod to the machine, behind a veth pair.
func (m *machine) addPod(t *testing.T, p loadPod, n int) {
	t.Helper()
	m.write(t, filepath.Join("etc/netns", p.String(), "resolv.conf"), p.resolvConf) // ip-netns(8) mounts it
	m.run(t, strings.NewReplacer("POD", p.String(), "N", strconv.Itoa(n)).Replace("ip netns add POD && "+
		"ip link add vethN type veth peer name eth0 netns POD && ip address add 10.244.N.1/24 dev vethN && ip link set vethN up && "+
		"ip -n POD link set lo up && ip -n POD address add 10.244.N.2/24 dev eth0 && ip -n POD link set eth0 up && "+
		"ip -n POD route add default via 10.244.N.1 && echo added"))
}

// inside returns the command that runs a script in a pod.
func (l *runningLoad) inside(p loadPod, suffix string) string {
	return fmt.Sprintf("ip netns exec %s sh %s", p, filepath.Join(l.dir, p.String()+suffix))
}

// command returns the command of the i-th program in a pod, which looks up its first n names.
func (l *runningLoad) command(p loadPod, how string, i, n int) string {
	command := l.ask[p.library] + " " + how
	for n := range n {
		name, _ := lookupName(p, i, n)
		command += " " + name
	}
	return command
}

func (l *runningLoad) output(p loadPod) string { return filepath.Join(l.dir, p.String()+".lookups") }

// lines returns the completed lookups of a pod.
func (l *runningLoad) lines(p loadPod) []string {
	text, _ := os.ReadFile(l.output(p)) // the file exists from the first lookup on
	lines := strings.SplitAfter(string(text), "\n")
	return lines[:len(lines)-1]
}

// reach waits until n lookups of each pod are complete.
func (l *runningLoad) reach(t *testing.T, n int) {
	t.Helper()
	for _, p := range l.pods {
		await(t, func() error {
			if done := len(l.lines(p)); done < n {
				return fmt.Errorf("%d of %d lookups are complete", done, n)
			}
			return nil
		})
	}
}

// end ends the programs after their current lookups, and returns how long they ran.
func (l *runningLoad) end(t *testing.T) time.Duration {
	t.Helper()
	must.Succeed(t, l.running.Close())
	took := time.Since(l.began)
	l.run(t, "wait "+l.pid+"; echo ended")
	return took
}

// slowTime is less than the time after which a C library sends a query again: 2.5 s in musl, 5 s in glibc. On an
// idle machine, slower lookups are those that were sent again.
const slowTime = time.Second

// tally counts the results of a pod's lookups.
type tally struct {
	found, absent int      // correctly
	again         []string // failed for now
	slow          int      // longer than slowTime
	wrong         []string
	delays        []time.Duration // in order
}

// recovers waits until lookups of each kind succeed in a pod.
func (l *runningLoad) recovers(t *testing.T, p loadPod) {
	t.Helper()
	await(t, func() error {
		out := l.run(t, l.inside(p, ".again.sh")+"; echo")
		lines := strings.Split(strings.TrimSuffix(out, ";"), ";")
		c := p.tally(t, lines)
		switch {
		case len(c.wrong) > 0:
			t.Errorf("%s: wrong replies after the fault: %q", p, c.wrong)
		case len(c.again) > 0 || len(lines) != kinds:
			return fmt.Errorf("%s: lookups fail after the fault: %q", p, lines)
		}
		return nil
	})
}

// tally counts the results in lines of a pod.
func (p loadPod) tally(t *testing.T, lines []string) (c tally) {
	t.Helper()
	want := map[string]string{}
	for i := range many.programs {
		for n := range few.names {
			name, addr := lookupName(p, i, n)
			want[name] = addr
		}
	}
	for i, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		took, out, _ := strings.Cut(rest, " ")
		micros, err := strconv.ParseInt(took, 10, 64)
		if err != nil {
			t.Fatalf("%s: %q", p, line)
		}
		delay := time.Duration(micros) * time.Microsecond
		c.delays = append(c.delays, delay)
		if delay > slowTime {
			c.slow++
		}
		switch got := found(out); {
		case got == "error EAI_AGAIN", got == "error EAI_NODATA" && p.library == "glibc":
			// glibc says NODATA where a server fails for A, and has the NODATA of AAAA: a fault may begin between the two.
			c.again = append(c.again, fmt.Sprintf("%s, lookup %d in %v", name, i, delay))
		case got == want[name] && got != "":
			c.found++
		case got == "error EAI_NONAME" && want[name] == "":
			c.absent++
		default:
			c.wrong = append(c.wrong, fmt.Sprintf("%s: %s, want %q, lookup %d of %d in %v", name, got, want[name], i, len(lines), delay))
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
