// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestRestartWithoutAPIServer starts servers while the API server is down. One with a
// snapshot serves its names and reports that they are old. One without a snapshot replies
// SERVFAIL for the cluster and forwards. Both have the present state when the API server
// is back.
func TestRestartWithoutAPIServer(t *testing.T) {
	c := apiserver.Start(t)
	db := newHeadless(kubernetes.NewForConfigOrDie(c.Config()), "db", 3)
	create(t, kubernetes.NewForConfigOrDie(c.Config()), db)
	kubeconfig := must.Get(c.Kubeconfig(c.Address(), ""))(t)
	serves := func(s *server, state int) func() error {
		return func() error {
			var errs []error
			for _, q := range db.questions {
				errs = append(errs, s.has(db.world(state), q))
			}
			return errors.Join(errs...)
		}
	}
	snapshot := fmt.Sprintf("snapshot: %q", filepath.Join(t.TempDir(), "snapshot"))
	before := newServer(t, kubeconfig, snapshot)
	before.start(t)
	poll.UntilNil(t, "a first state", serves(before, 0))
	before.Stop()
	c.API.Kill()

	with, without := newServer(t, kubeconfig, snapshot), newServer(t, kubeconfig)
	start := time.Now()
	with.start(t)
	absent, outside := question("absent", dns.TypeA), ask.Question{Name: "www.example.com.", Type: dns.TypeA}
	for rcode := -1; rcode != dns.RcodeSuccess; { // until the server is there, there is no reply, or SERVFAIL
		if rcode, _ = with.rcode(db.questions[0]); rcode == dns.RcodeNameError || time.Since(start) > patience {
			t.Fatalf("after %v the rcode is %d\n%s", time.Since(start), rcode, with.Log())
		}
	}
	if err := serves(with, 0)(); err != nil {
		t.Error(err)
	}
	if code, text := with.get("/readyz?verbose"); code != http.StatusOK ||
		!strings.Contains(text, "names: from a snapshot, ") || !strings.Contains(text, "services: not listed yet: ") {
		t.Errorf("%d %s", code, text)
	}
	if age := with.metric(t, "dnsconfigurer_dns_snapshot_age_seconds", ""); age <= 0 {
		t.Errorf("the snapshot is %v s old", age)
	}

	without.start(t)
	poll.UntilNil(t, "forwarding", func() error { return forwards(without, outside) })
	poll.UntilNil(t, "a reason", func() error { return contains(without, "/readyz", "connection refused") })
	for _, q := range []ask.Question{db.questions[0], absent} {
		if rcode, _ := without.rcode(q); rcode != dns.RcodeServerFailure {
			t.Errorf("%v without data: rcode %d", q, rcode)
		}
	}
	if code, text := without.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}

	state, w := db.next()
	must.Succeed(t, errors.Join(c.API.Start(), c.Ready(t.Context()), db.put(t.Context(), w)))
	for _, s := range []*server{with, without} {
		poll.UntilNil(t, "the present state", serves(s, state))
		poll.UntilNil(t, "ready", func() error { return contains(s, "/readyz?verbose", "names: loaded") })
		if age := s.metric(t, "dnsconfigurer_dns_snapshot_age_seconds", ""); age != 0 {
			t.Errorf("the snapshot is %v s old, want 0: it is not served", age)
		}
		if n := s.metric(t, "dnsconfigurer_dns_objects", "endpointslices"); n != 2 { // db's and kubernetes'
			t.Errorf("%v slices", n)
		}
		if rcode, _ := s.rcode(absent); rcode != dns.RcodeNameError {
			t.Errorf("%v: rcode %d", absent, rcode)
		}
	}
}
