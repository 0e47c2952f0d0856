// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestAPIServerWebhook_Lifecycle applies the registration of the chart with kubectl: an
// installation before the server runs, upgrades, the loss of the server, the uninstallation in
// the order of docs/checks.md, and another installation. A client creates valid pods all the
// time, and none is refused.
func TestAPIServerWebhook_Lifecycle(t *testing.T) {
	c := apiserver.Start(t, withoutAccounts)
	w := newWebhookTest(t, c)
	l := webhookLifecycle{w}
	stop := l.createValid(t)

	l.install(t, w.authority.PEM, "validating.yaml", "mutating.yaml")
	l.until(t, "an installation without a server", false)
	serve := func() func() {
		return w.serve(t, webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t)}))
	}
	stopServer := serve()
	l.until(t, "an installation", true)

	before := w.authority.PEM
	w.authority = certs.NewAuthority(t)
	l.install(t, append(append([]byte{}, before...), w.authority.PEM...), "validating.yaml") // first the API server trusts both
	w.issue(t, w.dir)
	l.until(t, "another certificate", true)
	l.install(t, w.authority.PEM, "validating.yaml")
	l.until(t, "without the former authority", true)

	stopServer()
	l.until(t, "the server is gone", false)
	stopServer = serve()
	l.until(t, "the server is back", true)

	l.kubectl.MustRun(t, "", "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "dnsconfigurer")
	l.until(t, "no configuration", false)
	stopServer()

	defer serve()()
	l.install(t, w.authority.PEM, "validating.yaml", "mutating.yaml")
	l.until(t, "another installation", true)
	created, longest := stop()
	t.Logf("%d valid pods, none refused; the slowest took %v", created, longest.Round(time.Millisecond))
	if created < 100 {
		t.Error("too few pods")
	}
}

type webhookLifecycle struct{ *webhookTest }

// validPod is a pod about which the API server asks the webhook.
const validPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"valid","namespace":"default"},
	"spec":{"dnsConfig":{"options":[{"name":"ndots","value":"2"}]},"containers":[{"name":"c","image":"registry.example/c"}]}}`

// createValid creates valid pods until stop is called, which returns their number and the
// longest time of one. A pod that is refused, or does not get an answer, is an error.
func (l webhookLifecycle) createValid(t *testing.T) (stop func() (created int, longest time.Duration)) {
	t.Helper()
	const lost = time.Minute // both webhooks have three seconds each
	ctx, cancel := context.WithCancel(t.Context())
	var creating sync.WaitGroup
	created, longest := 0, time.Duration(0)
	creating.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			request, done := context.WithTimeout(context.WithoutCancel(ctx), lost)
			s, err := l.create(request, []byte(validPod), true)
			done()
			if err != nil || s.refused != "" {
				t.Errorf("after %d pods: %q, %v", created, s.refused, err)
			}
			created++
			longest = max(longest, time.Since(start))
			time.Sleep(10 * time.Millisecond) // leaves the machine to the others
		}
	})
	stop = sync.OnceValues(func() (int, time.Duration) {
		cancel()
		creating.Wait()
		return created, longest
	})
	t.Cleanup(func() { stop() })
	return stop
}
