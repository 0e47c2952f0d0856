// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
)

// The only name that exists, and the last domain of all search lists.
const name, domain = "web", "last.example"

// readers are commands of sh that print an address of the name $1, which is in the domain. $0 is
// the directory of the programs that the test builds. Readers without a search list get the whole
// name.
var readers = []struct {
	name, command string
	whole         bool
	packages      []string
}{
	{name: "BusyBox nslookup, musl", command: `$0/busybox nslookup $1`, whole: true},
	{name: "BusyBox nslookup with a search list, musl", command: `$0/busybox nslookup $1; true`}, // it fails if a candidate does
	{name: "BusyBox ping, musl", command: `$0/busybox ping -c 1 $1`},
	{name: "BusyBox wget, musl", command: `$0/busybox wget -qO- http://$1/`},
	{name: "BusyBox nslookup, glibc", command: `busybox nslookup $1`, whole: true},
	{name: "BusyBox nslookup with a search list, glibc", command: `busybox nslookup $1; true`},
	{name: "BusyBox ping, glibc", command: `busybox ping -c 1 $1`},
	{name: "BusyBox wget, glibc", command: `busybox wget -qO- http://$1/`},
	{name: "glibc", command: `$0/glibc 4 $1`, packages: []string{"gcc", "libc6-dev"}},
	{name: "musl", command: `$0/musl 4 $1`, packages: []string{"musl-tools"}},
	{name: "Go", command: `$0/golang 4 $1`},
	{name: "miekg/dns", command: `$0/miekg $1`},
	{name: "dig", command: `dig +search +short $1`, packages: []string{"bind9-dnsutils"}},
	{name: "host", command: `host -t A $1`, packages: []string{"bind9-host"}},
	{name: "nslookup of BIND", command: `nslookup -type=A $1`},
	{name: "drill", command: `drill $1 A`, whole: true, packages: []string{"ldnsutils"}},
	{name: "unbound-host", command: `unbound-host -r -t A $1`, whole: true, packages: []string{"unbound-host"}},
	{name: "khost", command: `khost -t A $1`, whole: true, packages: []string{"knot-host"}},
	{name: "getdns", command: `getdns_query -s -A $1`, whole: true, packages: []string{"getdns-utils"}},
	{name: "adns", command: `adnshost --search $1`, packages: []string{"adns-tools"}},
	{name: "udns", command: `dnsget -t A $1`, packages: []string{"udns-utils"}},
	{name: "c-ares", packages: []string{"python3-pycares"}, command: `/usr/bin/python3 -c '
import pycares, select, socket, sys
channel = pycares.Channel()
channel.gethostbyname(sys.argv[1], socket.AF_INET, lambda result, error: print(result, error))
while True:
    readable, writable = channel.getsock()
    if not readable and not writable: break
    for fds, process in zip(select.select(readable, writable, [], channel.timeout()), (
            lambda fd: channel.process_fd(fd, -1), lambda fd: channel.process_fd(-1, fd))):
        for fd in fds: process(fd)
' $1`},
	{name: "dnspython", packages: []string{"python3-dnspython"}, command: `/usr/bin/python3 -c '
import dns.resolver, sys
print(dns.resolver.resolve(sys.argv[1], "A", search=True).rrset)' $1`},
	{name: "Net::DNS", packages: []string{"libnet-dns-perl"},
		command: `perl -MNet::DNS -e '$_->print for Net::DNS::Resolver->new->search($ARGV[0])->answer' $1`},
	{name: "AnyEvent::DNS", whole: true, packages: []string{"libanyevent-perl"},
		command: `perl -MAnyEvent::DNS -e 'my $cv = AE::cv; AnyEvent::DNS::a $ARGV[0], $cv; print $cv->recv' $1`},
	{name: "Ruby Resolv", packages: []string{"ruby"}, command: `ruby -rresolv -e 'puts Resolv::DNS.new.getaddress(ARGV[0])' $1`},
	{name: "Erlang", packages: []string{"erlang-base"},
		command: `erl -noshell -eval 'io:format("~p", [inet_res:getbyname(hd(init:get_plain_arguments()), a)]), halt().' -extra $1`},
}

// build returns a directory with the programs of readers that Debian does not have. It installs
// the packages of the others.
func build(t *testing.T) string {
	t.Helper()
	packages := []string{"iproute2"}
	for _, r := range readers {
		packages = append(packages, r.packages...)
	}
	debian.InstallPackages(t, packages...)
	debian.Install(t, "busybox", "busybox-static")
	dir := t.TempDir()
	for _, command := range []string{
		"cp " + debian.BusyBox(t) + " " + dir,
		"gcc -static -o " + dir + "/glibc ../libc/testdata/ask.c -lresolv",
		"musl-gcc -static -o " + dir + "/musl ../libc/testdata/ask.c",
		"go build -ldflags=-checklinkname=0 -o " + dir + "/golang ../libc/testdata/golang",
		"go build -o " + dir + "/miekg ./testdata/miekg",
	} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return dir
}

// file is a resolv.conf. All its servers, and no others, answer with the address.
type file struct {
	title, path, address string
}

// TestReaders looks up the name with each reader in each file.
func TestReaders(t *testing.T) {
	programs := build(t)
	if !netns.Enter(t) {
		return
	}
	netns.Run(t, "ip link set lo up")
	var files []file
	for i, family := range []string{"127.0.%d.%d", "fd00:%d::%d"} {
		for servers := 1; servers <= 3; servers++ {
			files = append(files, writeFiles(t, family, servers)...)
		}
		for set := range 4 {
			for n := range 3 {
				address := fmt.Sprintf(family, set+1, n+1)
				if i == 1 {
					netns.AddIPv6(t, address)
				}
				serve(t, address, addressOf(set))
			}
		}
	}
	for set := range 4 {
		netns.Run(t, "ip address add "+addressOf(set)+"/32 dev lo")
		serveHTTP(t, addressOf(set))
	}
	nsswitch := filepath.Join(t.TempDir(), "nsswitch.conf")
	must.Succeed(t, os.WriteFile(nsswitch, []byte("hosts: dns\n"), 0o644))
	for _, r := range readers {
		query := name
		if r.whole {
			query += "." + domain
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			for _, f := range files {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				out, err := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c",
					`mount --bind "$3" /etc/resolv.conf && mount --bind "$4" /etc/nsswitch.conf && exec sh -c "$0" "$1" "$2"`,
					r.command, programs, query, f.path, nsswitch).CombinedOutput()
				cancel()
				if err != nil || !strings.Contains(string(out), f.address) && !strings.Contains(string(out), erlang(f.address)) {
					t.Errorf("%s: got %v, want %s:\n%s", f.title, err, f.address, out)
				}
			}
			t.Logf("%v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// erlang returns an address as Erlang prints it.
func erlang(address string) string { return strings.ReplaceAll(address, ".", ",") }

// addressOf returns the address in the answers of a set of servers.
func addressOf(set int) string { return fmt.Sprintf("192.0.2.%d", set+1) }

// writeFiles writes a file as the agent does, and returns a copy after each write.
func writeFiles(t *testing.T, family string, servers int) []file {
	t.Helper()
	config := func(set int, searches, options []string) string {
		c := resolvconf.Config{Searches: append(slices.Clone(searches), domain), Options: options}
		for n := range servers {
			c.Nameservers = append(c.Nameservers, fmt.Sprintf(family, set+1, n+1))
		}
		return c.String()
	}
	cluster := []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	ndots := []string{"ndots:5"}
	dir := filepath.Join(t.TempDir(), "sandbox")
	path := filepath.Join(dir, "resolv.conf")
	original := config(0, cluster, ndots)
	must.Succeed(t, os.Mkdir(dir, 0o755))
	must.Succeed(t, os.WriteFile(path, []byte(original), 0o644))
	f := must.Get(podfile.Open([]string{filepath.Dir(dir)}, filepath.Base(dir), path))(t)
	defer f.Close()
	var files []file
	for _, step := range []struct {
		title string
		set   int
		text  string
	}{
		{"text of the runtime", 0, original},
		{"first write", 1, config(1, cluster, ndots)},
		{"longer text", 2, config(2, append(cluster, strings.Repeat("long.", 12)+"example"), append(ndots, "timeout:5", "attempts:2"))},
		{"shorter text", 3, config(3, nil, nil)},
		{"restored text", 0, ""},
	} {
		old, err := f.Read()
		switch {
		case err != nil:
		case len(files) == 0:
		case step.text == "":
			err = f.Restore(old, []byte(original))
		default:
			err = f.Replace(old, step.text, []byte(original))
		}
		if err != nil {
			t.Fatal(err)
		}
		text := must.Get(f.Read())(t)
		snapshot := fmt.Sprint(path, len(files))
		must.Succeed(t, os.WriteFile(snapshot, text, 0o644))
		title := fmt.Sprintf("%s, %d servers such as %s", step.title, servers, fmt.Sprintf(family, step.set+1, 1))
		files = append(files, file{title, snapshot, addressOf(step.set)})
	}
	return files
}

// serve runs a DNS server that knows one name, and its address.
func serve(t *testing.T, server, address string) {
	t.Helper()
	at := net.JoinHostPort(server, "53")
	udp := must.Get(net.ListenPacket("udp", at))(t)
	tcp := must.Get(net.Listen("tcp", at))(t)
	s := dnstest.Serve(udp, tcp, dnstest.Reply(func(query *dns.Msg) *dns.Msg {
		r := new(dns.Msg).SetReply(query)
		r.RecursionAvailable = true
		q := query.Question[0]
		switch {
		case !strings.EqualFold(q.Name, name+"."+domain+"."):
			r.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			h := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 5}
			r.Answer = []dns.RR{&dns.A{Hdr: h, A: net.ParseIP(address)}}
		}
		return r
	}))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// serveHTTP runs an HTTP server that answers with its address.
func serveHTTP(t *testing.T, address string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(address, "80")))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, address) })}
	go server.Serve(listener) // it returns ErrServerClosed
	t.Cleanup(func() { server.Close() })
}
