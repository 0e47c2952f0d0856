// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const (
	// doctorBinary is the variable with the path of the command, in the network namespace.
	doctorBinary = "DNSCONFIGURER_TEST_DOCTOR"

	dnsService  = "10.96.0.10:53" // as in the healthy cluster
	dnsReplica1 = "10.244.1.2:53"
	dnsReplica2 = "10.244.2.2:53"
	dnsUpstream = "127.0.0.2:53"

	// brokenName has an A record. The server outside the cluster answers AAAA with NXDOMAIN.
	brokenName = "broken.example.com"
)

// TestAPIServerDoctor breaks the DNS of a cluster in many ways and has the command doctor find
// each: a real API server with the objects of package dnsfaults, and two DNS servers at the
// addresses of the DNS Service and its endpoints, in a network namespace.
func TestAPIServerDoctor(t *testing.T) {
	if binary := os.Getenv(doctorBinary); binary != "" {
		newDoctorTest(t, binary).run(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	apiserver.Install(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAPIServerDoctor$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), doctorBinary+"="+process.Build(t, t.TempDir()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestAPIServerDoctor")) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

type doctorTest struct {
	binary, kubeconfig string
	cluster            *apiserver.Cluster
	client             *http.Client
	host               string
	replicas           [2]*process.Process
	names              int      // outside the cluster that were queried
	table              []string // the faults, as rows of test/dnsfaults/found.md
}

// newDoctorTest starts the healthy cluster.
func newDoctorTest(t *testing.T, binary string) *doctorTest {
	t.Helper()
	netns.Run(
		t,
		"ip link set lo up",
		"ip addr add 10.96.0.10/32 dev lo",
		"ip addr add 10.244.1.2/32 dev lo",
		"ip addr add 10.244.2.2/32 dev lo",
	)
	d := &doctorTest{binary: binary, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), cluster: apiserver.Start(t, withoutAccounts)}
	config, err := d.cluster.Config()
	if err != nil {
		t.Fatal(err)
	}
	d.host = config.Host
	if d.client, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	d.writeKubeconfig(t, d.kubeconfig, "")
	objects, order, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range order {
		d.create(t, objects[key])
	}
	d.replicas[0] = d.replica(t, dnsReplica1, dnsService)
	d.replicas[1] = d.replica(t, dnsReplica2)
	for _, r := range d.replicas {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *doctorTest) writeKubeconfig(t *testing.T, file, as string) {
	t.Helper()
	text, err := d.cluster.Kubeconfig(d.cluster.Address(), as)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *doctorTest) replica(t *testing.T, listen ...string) *process.Process {
	t.Helper()
	p := &process.Process{
		Program: d.binary,
		LogFile: filepath.Join(t.TempDir(), "log"),
		Args:    []string{"dns", "--kubeconfig", d.kubeconfig, "--upstream", dnsUpstream},
	}
	for _, address := range listen {
		p.Args = append(p.Args, "--listen", address)
	}
	t.Cleanup(p.Kill)
	return p
}

func (d *doctorTest) run(t *testing.T) {
	records := dnstest.Records(t, "*.example.com. 60 IN A 192.0.2.80")
	upstream := func() (stop func()) {
		return serveAt(t, dnsUpstream, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
			if q.Question[0].Qtype == dns.TypeAAAA && q.Question[0].Name == brokenName+"." {
				return new(dns.Msg).SetRcode(q, dns.RcodeNameError)
			}
			return records(q)
		}))
	}
	stop := upstream()
	d.waitHealthy(t)
	t.Run("faults", d.faults)
	t.Run("servers", d.servers)
	stop()
	d.check(t, dnsfaults.Fault{Name: "the servers outside the cluster are down", Evidence: "SERVFAIL"}, []string{"probe-external"})
	defer upstream()()
	d.waitHealthy(t)
	t.Run("permissions", d.permissions)
	t.Run("means", d.means)
	t.Run("pod", d.pod)
	t.Run("page", d.page)
	t.Run("CoreDNS", d.coreDNS)
	page, err := os.ReadFile("../dnsfaults/found.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range d.table {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("test/dnsfaults/found.md lacks the row %s", row)
		}
	}
	t.Logf("%d faults:\n| fault | finding | evidence |\n|---|---|---|\n%s", len(d.table), strings.Join(d.table, "\n"))
}

// doctor runs the command and returns its result and its exit code.
func (d *doctorTest) doctor(t *testing.T, args ...string) (r v1alpha1.DoctorResult, exit int) {
	t.Helper()
	out, exit := d.output(t, append([]string{"-o", "json"}, args...)...)
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r, exit
}

func (d *doctorTest) output(t *testing.T, args ...string) (out []byte, exit int) {
	t.Helper()
	d.names++ // the servers have cached the previous name
	all := append([]string{"doctor", "--kubeconfig", d.kubeconfig, "--external-name", fmt.Sprintf("n%d.example.com", d.names)}, args...)
	cmd := exec.Command(d.binary, all...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		exit = failed.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Fatalf("%s: %s", cmd, &stderr)
	}
	return out, exit
}

// waitHealthy waits until the servers have loaded the names: a healthy cluster has no finding.
func (d *doctorTest) waitHealthy(t *testing.T) {
	t.Helper()
	poll.Until(t, "a healthy cluster", func() bool {
		r, exit := d.doctor(t)
		return len(r.Findings)+len(r.NotChecked)+exit == 0 && len(r.Probes) > 0
	})
}

// hasFindings reports whether the findings of a result have these codes.
func hasFindings(r v1alpha1.DoctorResult, codes []string) bool {
	return slices.Equal(dnsfaults.Codes(r), slices.Sorted(slices.Values(codes)))
}

// check runs the command and compares the codes of its findings. It repeats that, because a busy
// machine loses and delays replies of the servers.
func (d *doctorTest) check(t *testing.T, f dnsfaults.Fault, want []string) {
	t.Helper()
	r, exit := d.doctor(t)
	for tries := 1; tries < 5 && !hasFindings(r, want); tries++ {
		r, exit = d.doctor(t)
	}
	d.checkResult(t, r, exit, f, want)
}

// checkResult compares the codes of the findings in a result, and records the fault.
func (d *doctorTest) checkResult(t *testing.T, r v1alpha1.DoctorResult, exit int, f dnsfaults.Fault, want []string) {
	t.Helper()
	row, err := f.Found(r, exit, want)
	if err != nil {
		t.Error(err)
		return
	}
	d.table = append(d.table, row)
}

// faults applies each fault, one after the other.
func (d *doctorTest) faults(t *testing.T) {
	faults, err := dnsfaults.Load()
	if err != nil {
		t.Fatal(err)
	}
	base, _, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if f.Refused {
			continue
		}
		objects, err := f.Apply(base)
		if err != nil {
			t.Fatal(err)
		}
		d.replace(t, f.Changed(), base, objects)
		d.check(t, f, slices.Concat(f.Finds, f.Probes))
		d.replace(t, f.Changed(), objects, base)
	}
	d.waitHealthy(t)
}

// replace replaces the objects with these keys: those of pods are immutable.
func (d *doctorTest) replace(t *testing.T, keys []string, old, objects dnsfaults.Objects) {
	t.Helper()
	for _, key := range keys {
		if o := old[key]; o != nil {
			d.request(
				t,
				http.MethodDelete,
				o.Path(),
				dnsfaults.Object{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
			)
		}
	}
	for _, key := range keys {
		if o := objects[key]; o != nil {
			d.create(t, o)
		}
	}
}

// create creates an object, and sets its status.
func (d *doctorTest) create(t *testing.T, o dnsfaults.Object) {
	t.Helper()
	created := d.request(t, http.MethodPost, o.Collection(), o)
	if o["status"] == nil {
		return
	}
	created["status"] = o["status"]
	d.request(t, http.MethodPut, o.Path()+"/status", created)
}

func (d *doctorTest) request(t *testing.T, method, path string, body dnsfaults.Object) (reply dnsfaults.Object) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, d.host+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %v %s", method, path, response.Status, err, out)
	}
	if err := json.Unmarshal(out, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// serveAt runs a DNS server at an address until stop is called.
func serveAt(t *testing.T, address string, h dnstest.Handler) (stop func()) {
	t.Helper()
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := dnstest.Serve(udp, tcp, h)
	return func() { _ = s.Close() }
}

// servers replaces the second replica by servers that are wrong.
func (d *doctorTest) servers(t *testing.T) {
	const names = `*.example.com. 60 IN A 192.0.2.80
kube-dns.kube-system.svc.cluster.local. 5 IN A 10.96.0.10
web.shop.svc.cluster.local. 5 IN A 10.96.5.1
dnsconfigurer-webhook.dnsconfigurer.svc.cluster.local. 5 IN A 10.96.5.2
`
	good := dnstest.Records(t, names+"kubernetes.default.svc.cluster.local. 5 IN A 10.96.0.1")
	stale := dnstest.Records(t, names+"kubernetes.default.svc.cluster.local. 5 IN A 10.96.0.99")
	over := func(protocol string) dnstest.Handler {
		reply := dnstest.Reply(good)
		return func(network string, query *dns.Msg) []dnstest.Message {
			if network != protocol {
				return nil
			}
			return reply(network, query)
		}
	}
	tests := []struct {
		name     string
		finds    []string
		evidence string
		server   dnstest.Handler // nil: none
	}{
		{"a pod of the cluster DNS does not listen", []string{"probe-no-reply"}, "@10.244.2.2:53 over tcp: no reply", nil},
		{"UDP packets are dropped", []string{"probe-no-reply"}, "over udp: no reply", over("tcp")},
		{"TCP packets are dropped", []string{"probe-no-reply"}, "over tcp: no reply", over("udp")},
		{"a pod of the cluster DNS has not loaded the names",
			[]string{"probe-wrong-answer"}, "SERVFAIL", dnstest.Reply(func(q *dns.Msg) *dns.Msg {
				return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
			})},
		{
			"a pod of the cluster DNS has stale names",
			[]string{"probe-wrong-answer"},
			"NOERROR, 10.96.0.99",
			dnstest.Reply(stale),
		},
		{"a server answers AAAA with NXDOMAIN", []string{"probe-aaaa-nxdomain"},
			"AAAA @10.244.2.2:53 over udp: NXDOMAIN", dnstest.Reply(func(q *dns.Msg) *dns.Msg {
				if q.Question[0].Qtype == dns.TypeAAAA {
					return new(dns.Msg).SetRcode(q, dns.RcodeNameError)
				}
				return good(q)
			})},
		{"a pod of the cluster DNS is slow", []string{"probe-unreliable"}, "@10.244.2.2:53", dnstest.Reply(func(q *dns.Msg) *dns.Msg {
			time.Sleep(300 * time.Millisecond)
			return good(q)
		})},
	}
	d.replicas[1].Kill()
	for _, tt := range tests {
		stop := func() {}
		if tt.server != nil {
			stop = serveAt(t, dnsReplica2, tt.server)
		}
		d.check(t, dnsfaults.Fault{Name: tt.name, Evidence: tt.evidence}, tt.finds)
		stop()
	}
	if err := d.replicas[1].Start(); err != nil {
		t.Fatal(err)
	}
	d.waitHealthy(t)
}

// permissions: without permissions nothing is healthy, and with those of docs/debugging.md
// everything is checked.
func (d *doctorTest) permissions(t *testing.T) {
	admin := d.kubeconfig
	defer func() { d.kubeconfig = admin }()
	d.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	d.writeKubeconfig(t, d.kubeconfig, "viewer")
	r, exit := d.doctor(t, "--dns-server", "10.96.0.10", "--dns-server", dnsReplica1)
	if len(r.Findings) > 0 || exit != 0 || len(r.NotChecked) < 5 {
		t.Errorf("exit %d, findings %+v, not checked %+v", exit, r.Findings, r.NotChecked)
	}
	for _, n := range r.NotChecked {
		permitted := !strings.Contains(n.Why, "no permission to list ") &&
			!strings.Contains(n.Why, "no permission to get ConfigMap kube-system/kubelet-config: ")
		if permitted || len(n.Checks) == 0 {
			t.Errorf("%+v", n)
		}
	}
	page, err := os.ReadFile("../../docs/debugging.md")
	if err != nil {
		t.Fatal(err)
	}
	_, role, _ := strings.Cut(string(page), "```yaml\n")
	role, _, _ = strings.Cut(role, "```")
	binding := "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, " +
		"metadata: {name: viewer}, subjects: [{kind: User, name: viewer, apiGroup: " +
		"rbac.authorization.k8s.io}], roleRef: {kind: ClusterRole, name: dnsconfigurer-doctor, apiGroup: rbac.authorization.k8s.io}}\n"
	if _, _, err := d.cluster.Kubectl(t).Run(t.Context(), role+binding, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	d.waitHealthy(t)
}

// pod is what a pod should have.
func (d *doctorTest) pod(t *testing.T) {
	out, exit := d.output(t, "--pod", "shop/db-0")
	for _, want := range []string{"Pod shop/db-0, dnsPolicy ClusterFirst, host name db-0, FQDN db-0.db.shop.svc.cluster.local",
		"  nameserver 10.96.0.10\n", "search shop.svc.cluster.local svc.cluster.local cluster.local", "sends 8 queries"} {
		if !strings.Contains(string(out), want) || exit != 0 {
			t.Errorf("exit %d, no %q in:\n%s", exit, want, out)
		}
	}
}

// page writes the page about a cluster with a fault.
func (d *doctorTest) page(t *testing.T) {
	d.replicas[1].Kill()
	out, exit := d.output(t, "-o", "html")
	if exit != 1 || !strings.Contains(string(out), "probe-no-reply") || strings.Contains(string(out), "<script") {
		t.Errorf("exit %d:\n%s", exit, out)
	}
	if file := os.Getenv("DNSCONFIGURER_TEST_DOCTOR_PAGE"); file != "" { // to look at it
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Error(err)
		}
	}
}
