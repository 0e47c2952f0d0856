// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
)

// staleDenial limits the TTL of negative replies from a snapshot, in seconds.
const staleDenial = 5

// scene is a control plane with one headless Service, db, in its first state.
type scene struct {
	*apiserver.Cluster
	db      *register
	program string
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	c := &scene{Cluster: apiserver.Start(t, flags...), program: build(t)}
	api := newClient(t, c.Cluster)
	c.db = newHeadless(api, "db", 3)
	create(t, api, c.db)
	return c
}

func (c *scene) server(t *testing.T, as string, fields ...string) *server {
	t.Helper()
	text, err := c.Kubeconfig(c.Address(), as)
	if err != nil {
		t.Fatal(err)
	}
	return newServer(t, c.program, text, fields...)
}

// change writes the next state of db.
func (c *scene) change(t *testing.T) {
	t.Helper()
	state, w := c.db.next()
	if err := c.db.put(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	c.db.accepted(state)
}

// serves returns a function that compares the replies of s with a state of db.
func (c *scene) serves(s *server, state int) func() error {
	return func() error {
		for _, q := range c.db.questions {
			if err := s.has(c.db.world(state), q); err != nil {
				return err
			}
		}
		return nil
	}
}

// snapshotAt returns the field of a snapshot.
func snapshotAt(file string) string { return fmt.Sprintf("snapshot: %q", file) }

// leave runs a server until it has written a snapshot of the present state, and returns
// the file.
func (c *scene) leave(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "snapshot")
	s := c.server(t, "", snapshotAt(file))
	s.start(t)
	eventually(t, "a first state", c.serves(s, len(c.db.states)-1))
	s.Stop()
	return file
}

// TestRestartWithoutAPIServer starts servers while the API server is down. One with a
// snapshot serves its names and reports that they are old. One without a snapshot replies
// SERVFAIL for the cluster and forwards. Both have the present state when the API server
// is back.
func TestRestartWithoutAPIServer(t *testing.T) {
	c := newScene(t)
	file := c.leave(t)
	c.API.Kill()

	with := c.server(t, "", snapshotAt(file))
	without := c.server(t, "")
	start := time.Now()
	with.start(t)
	absent, outside := question("absent", dns.TypeA), ask.Question{Name: "www.example.com.", Type: dns.TypeA}
	for rcode := -1; rcode != dns.RcodeSuccess; { // until the server is there, there is no reply, or SERVFAIL
		if rcode, _ = with.rcode(c.db.questions[0]); rcode == dns.RcodeNameError || time.Since(start) > patience {
			t.Fatalf("after %v the rcode is %d\n%s", time.Since(start), rcode, with.Log())
		}
	}
	t.Logf("from the start of the process to the snapshot's names: %v", time.Since(start).Round(time.Millisecond))
	if err := c.serves(with, 0)(); err != nil {
		t.Error(err)
	}
	if code, text := with.get("/readyz?verbose"); code != http.StatusOK ||
		!strings.Contains(text, "names: from a snapshot, ") || !strings.Contains(text, "services: not listed yet: ") {
		t.Errorf("%d %s", code, text)
	}
	if age := with.metric(t, "dnsconfigurer_dns_snapshot_age_seconds", ""); age <= 0 {
		t.Errorf("the snapshot is %v s old", age)
	}

	patient := c.server(t, "", snapshotAt(file), "ttl: 60")
	patient.start(t)
	eventually(t, "a denial that is not for long", func() error { return deniesBriefly(patient, absent) })

	way := newProxy(t, c.Address())
	way.stall()
	text, err := c.Kubeconfig(way.address, "")
	if err != nil {
		t.Fatal(err)
	}
	hung := newServer(t, c.program, text, snapshotAt(file))
	start = time.Now()
	hung.start(t)
	eventually(t, "the snapshot, with an unreachable API server", c.serves(hung, 0))
	t.Logf("the same with an unreachable API server: %v", time.Since(start).Round(time.Millisecond))

	without.start(t)
	eventually(t, "forwarding", func() error { return forwards(without, outside) })
	eventually(t, "a reason", func() error { return contains(without, "/readyz", "connection refused") })
	for _, q := range []ask.Question{c.db.questions[0], absent} {
		if rcode, _ := without.rcode(q); rcode != dns.RcodeServerFailure {
			t.Errorf("%v without data: rcode %d", q, rcode)
		}
	}
	if code, text := without.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}

	if err := c.API.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.change(t)
	back := time.Now()
	way.flow()
	for _, s := range []*server{with, without, hung} {
		eventually(t, "the present state", c.serves(s, 1))
		eventually(t, "ready", func() error { return contains(s, "/readyz?verbose", "names: loaded") })
		if age := s.metric(t, "dnsconfigurer_dns_snapshot_age_seconds", ""); age != 0 {
			t.Errorf("the snapshot is %v s old, want 0: it is not served", age)
		}
		if n := s.metric(t, "dnsconfigurer_dns_objects", "endpointslices"); n != 2 { // db's and kubernetes'
			t.Errorf("%v slices", n)
		}
	}
	t.Logf("from a ready API server to the present state: %v", time.Since(back).Round(time.Millisecond))
	for _, s := range []*server{with, without, hung} {
		if rcode, _ := s.rcode(absent); rcode != dns.RcodeNameError {
			t.Errorf("%v: rcode %d", absent, rcode)
		}
	}
}

// deniesBriefly returns an error unless s denies a name with a short TTL in the SOA
// record (RFC 2308 section 4).
func deniesBriefly(s *server, q ask.Question) error {
	rcode, m := s.rcode(q)
	if rcode != dns.RcodeNameError {
		return fmt.Errorf("%v: %v", q, m)
	}
	if soa := m.Ns[0].(*dns.SOA); min(soa.Minttl, soa.Hdr.Ttl) > staleDenial {
		return fmt.Errorf("%v: %v", q, soa)
	}
	return nil
}
