// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// dnsProcess is the command dns as a process.
type dnsProcess struct {
	t      *testing.T
	config string // path of its file
	addr   string
	http   string
	log    logbuffer.Buffer
	signal func(os.Signal) error
	stop   func()
}

const dnsHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"

// newDNSProcess starts the command with the manifests of examples and these fields, and waits
// until it is ready.
func newDNSProcess(t *testing.T, fields string) *dnsProcess {
	t.Helper()
	return newDNSProcessFor(t, fields, "--manifests", "../../examples")
}

// newDNSProcessFor is newDNSProcess with flags for another cluster.
func newDNSProcessFor(t *testing.T, fields string, cluster ...string) *dnsProcess {
	t.Helper()
	p := &dnsProcess{t: t, config: filepath.Join(t.TempDir(), "dns.yaml"), addr: freeAddr(t), http: freeAddr(t)}
	p.write(fields)
	p.signal, p.stop = startCommand(t,
		append([]string{"dns", "--config", p.config, "--listen", p.addr, "--http", p.http}, cluster...), &p.log)
	p.ready()
	return p
}

// ready waits until the server is ready.
func (p *dnsProcess) ready() {
	p.t.Helper()
	p.eventually("readiness", func() bool {
		r, err := http.Get("http://" + p.http + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// get returns the status code and the body of an HTTP response of the server.
func (p *dnsProcess) get(path string) string {
	p.t.Helper()
	r, err := http.Get("http://" + p.http + path)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
	defer r.Body.Close()
	body := must.Get(io.ReadAll(r.Body))(p.t)
	return fmt.Sprintf("%d %s", r.StatusCode, body)
}

func (p *dnsProcess) write(fields string) {
	p.t.Helper()
	must.Succeed(p.t, os.WriteFile(p.config, []byte(dnsHead+fields), 0o600))
}

// eventually waits until ok returns true.
func (p *dnsProcess) eventually(what string, ok func() bool) {
	p.t.Helper()
	poll.Until(p.t, what, ok, &p.log)
}

// ask returns the data of the first record for a name, or the rcode.
func (p *dnsProcess) ask(name string, qtype uint16) string {
	p.t.Helper()
	c := dns.Client{Timeout: time.Minute}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), p.addr)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
	if len(m.Answer) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	text := m.Answer[0].String()
	return text[strings.LastIndexByte(text, '\t')+1:]
}

// hangup writes fields to the file, sends SIGHUP, and waits until the log has these words.
func (p *dnsProcess) hangup(fields string, words ...string) {
	p.t.Helper()
	p.reread(func() { p.write(fields) }, words...)
}

// reread changes the files, sends SIGHUP, and waits until the log has these words.
func (p *dnsProcess) reread(change func(), words ...string) {
	p.t.Helper()
	// The lines of the first configuration come before this one.
	p.eventually("the start", func() bool { return strings.Contains(p.log.String(), "serving") })
	before := len(p.log.String())
	change()
	must.Succeed(p.t, p.signal(syscall.SIGHUP))
	for _, w := range words {
		p.eventually(w, func() bool { return strings.Contains(p.log.String()[before:], w) })
	}
}

// deadDomain is a domain whose queries get no reply.
const deadDomain = "dead.example"

// upstreamSaying starts a server with one TXT record for every name.
func upstreamSaying(t *testing.T, text string) (addr string) {
	t.Helper()
	return dnstest.Start(t, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		if dns.IsSubDomain(deadDomain+".", q.Question[0].Name) {
			return nil
		}
		r := new(dns.Msg).SetReply(q)
		r.Answer = []dns.RR{
			&dns.TXT{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 3600},
				Txt: []string{text}}}
		return r
	})).Addr.String()
}

// TestDNS_Reload changes the file while the server runs. Search lists consist of the cluster's domains and
// those of the file.
func TestDNS_Reload(t *testing.T) {
	one, two := upstreamSaying(t, "one"), upstreamSaying(t, "two")
	p := newDNSProcess(t, fmt.Sprintf("upstreams: [%q]\nhostSuffixes: [corp.example]\n", one))
	expect := func(name, want string) {
		t.Helper()
		p.says(name, dns.TypeTXT, want)
	}
	success := func(want string) {
		t.Helper()
		if line := "dnsconfigurer_config_last_reload_success " + want + "\n"; !strings.Contains(get(t, p.http, "/metrics"), line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
	expect("a.corp.example.", `"one"`)
	p.says("payments.search.shop.cluster.local.ap.k8s.io.", dns.TypeA, "payments.shop.svc.cluster.local.")
	expect("intranet.search.shop.cluster.local.ap.k8s.io.", "intranet.corp.example.")

	p.hangup(fmt.Sprintf("upstreams: [%q]\n", two), "configuration applied")
	expect("a.corp.example.", `"two"`) // the cache had the other

	stub := fmt.Sprintf("upstreams: [%q]\nstubDomains: [{zone: corp.example, servers: [%q]}]\n", two, one)
	p.hangup(stub, "configuration applied")
	expect("a.corp.example.", `"one"`)
	expect("a.example.", `"two"`)
	success("1")

	p.hangup("upstreams: [nowhere]\n", "upstreams[0]", "keeping the previous one")
	expect("b.example.", `"two"`)
	success("0")

	p.hangup(stub+"ttl: 9\nlogFormat: json\nclusterDomain: other.local\nautopathNetworks: [10.0.0.0/8]\n",
		"configuration applied", `take effect after a restart`,
		`fields="[logFormat clusterDomain ttl hostSuffixes autopathNetworks]"`)
	success("1")
	p.hangup("resolvConf: ''\n", "configuration applied")
	expect("c.example.", "REFUSED")
	if got := p.ask("payments.shop.svc.cluster.local.", dns.TypeA); got != "10.96.20.7" {
		t.Errorf("a Service of the examples: %s", got)
	}
}

// TestDNS_Lameduck: after SIGTERM the server answers queries for the lameduck time, from data
// that is still kept up to date, and forwards others over TCP.
func TestDNS_Lameduck(t *testing.T) {
	dir := t.TempDir()
	service := func(addr string) {
		text := "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\nspec: {clusterIP: " + addr + "}\n"
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(text), 0o600))
	}
	service("10.96.0.1")
	p := newDNSProcessFor(t, fmt.Sprintf("lameduck: 1m\nupstreams: [%q]\n", "tcp://"+upstreamSaying(t, "upstream")), "--manifests", dir)
	must.Succeed(t, p.signal(syscall.SIGTERM))
	service("10.96.0.2")
	p.eventually("the change", func() bool { return p.ask("web.shop.svc.cluster.local.", dns.TypeA) == "10.96.0.2" })
	p.says("a.example.", dns.TypeTXT, `"upstream"`)
	p.eventually("the log of the signal", func() bool { return strings.Contains(p.log.String(), `msg="shutting down" lameduck=1m0s`) })
	if got := p.get("/readyz"); got != "503 the server is shutting down\n" {
		t.Errorf("readiness in the lameduck time: %q", got)
	}
	if got := p.get("/metrics"); !strings.HasPrefix(got, "200 ") {
		t.Errorf("metrics in the lameduck time: %q", got)
	}
	if err := p.signal(os.Kill); err != nil { // instead of the rest of the lameduck time
		t.Fatal(err)
	}
}

// TestDNS_Metrics compares the names, types and labels of metrics with a golden file: alerts
// and dashboards depend on them. New ones must be in docs/dns.md.
func TestDNS_Metrics(t *testing.T) {
	api := kubeapi.New()
	web := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	api.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Service{ObjectMeta: web, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}}})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(kubeconfig, []byte(kubeapi.Kubeconfig(server.URL)), 0o600))
	limits := "maxQueries: 2000\n"
	p := newDNSProcessFor(t, fmt.Sprintf("upstreams: [%q]\n", upstreamSaying(t, "one"))+limits, "--kubeconfig", kubeconfig)
	p.ask("web.shop.svc.cluster.local.", dns.TypeA)
	p.ask("a.example.", dns.TypeTXT)
	web.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	web.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
	api.Apply(&discoveryv1.EndpointSlice{ObjectMeta: web, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}}}})
	p.eventually("the endpoint", func() bool {
		return strings.Contains(get(t, p.http, "/metrics"), "dnsconfigurer_dns_programming_duration_seconds_count")
	})
	checkMetrics(t, get(t, p.http, "/metrics"), "testdata/dns.metrics", "../../docs/dns.md")
	checkSlots(t, get(t, p.http, "/metrics"), 2000)
}

// checkSlots checks the number of queries that may wait.
func checkSlots(t *testing.T, metrics string, want int) {
	t.Helper()
	if line := fmt.Sprintf("\ndnsconfigurer_dns_slots_limit %d\n", want); !strings.Contains(metrics, line) {
		t.Errorf("no line %q", line)
	}
}

// checkMetrics compares the product's metrics in text form with the golden file and with the
// page. Those of Go and of the process are not the product's.
func checkMetrics(t *testing.T, text, golden, page string) {
	t.Helper()
	var got bytes.Buffer
	for _, family := range regexp.MustCompile(`(?m)^# TYPE (dnsconfigurer_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		sample := regexp.MustCompile(`(?m)^` + family[1] + `(?:_count)?(?:\{(.*)\})? `).FindStringSubmatch(text)
		if sample == nil {
			t.Fatalf("%s has no sample", family[1])
		}
		labels := regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(sample[1], -1)
		fmt.Fprintf(&got, "%s %s", family[1], family[2])
		for _, l := range labels {
			fmt.Fprintf(&got, " %s", l[1])
		}
		got.WriteByte('\n')
	}
	if *update {
		must.Succeed(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	doc := must.Get(os.ReadFile(page))(t)
	named := regexp.MustCompile(`dnsconfigurer_[a-z_]+[a-z]`).FindAllString(strings.ReplaceAll(string(doc), "_bucket", ""), -1)
	for line := range strings.Lines(got.String()) {
		name := strings.Fields(line)[0]
		if !slices.Contains(named, name) {
			t.Errorf("%s does not name %s", page, name)
		}
	}
	for _, golden := range []string{"testdata/dns.metrics", "testdata/nodecache.metrics"} { // the page is about both servers
		existing := must.Get(os.ReadFile(golden))(t)
		named = slices.DeleteFunc(named, func(name string) bool { return strings.Contains("\n"+string(existing), "\n"+name+" ") })
	}
	if len(named) > 0 {
		t.Errorf("%s names %v, which do not exist", page, named)
	}
}
