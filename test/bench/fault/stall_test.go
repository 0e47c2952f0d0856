// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestWatchStalls holds all bytes of the connection to the API server. The server replies
// to queries, and a metric has the time since the last byte. After a short stall the
// watch continues. After a long one the server detects the dead connection and opens
// another. Meanwhile the API server has lost its history: 410 Gone, and new lists.
func TestWatchStalls(t *testing.T) {
	audit := newAudit(t)
	c := apiserver.Start(t, audit.flags...)
	api := kubernetes.NewForConfigOrDie(c.Config())
	registers := []*register{newHeadless(api, "db", 3), newPorts(api, "web", "10.96.0.77"), newFleeting(api, "gone")}
	create(t, api, registers...)
	way := newProxy(t, c.Address())
	kubeconfig := must.Get(c.Kubeconfig(way.address, ""))(t)
	s := startReady(t, kubeconfig)
	load := askAll(t, s.address, registers...)
	load.write()
	load.more(20, 100)

	way.stall()
	silent := func(seconds float64) func() error {
		return func() error {
			if now := s.metric(t, silence, "endpointslices"); now < seconds {
				return fmt.Errorf("silent for %v s, want %v", now, seconds)
			}
			return nil
		}
	}
	poll.UntilNil(t, "3 s of silence", silent(3))
	load.more(20, 100)
	way.flow()
	load.catchUp()

	load.write()
	load.more(20, 100)
	way.stall()
	// client-go sends a ping after 30 s without bytes, and waits 15 s for the reply.
	poll.UntilNil(t, "the dead connection is detected", func() error { return logged(s, "client connection lost") })
	if err := silent(3)(); err != nil {
		t.Error(err)
	}
	if code, text := s.get("/readyz"); code != http.StatusOK {
		t.Errorf("not ready with old data: %d %s", code, text)
	}
	c.API.Kill() // its history of events ends with it
	must.Succeed(t, errors.Join(c.API.Start(), c.Ready(t.Context())))
	load.more(20, 100)
	before := audit.lists(t)
	way.flow()
	load.more(20, 100)
	load.catchUp()
	if after := audit.lists(t); after == before {
		t.Error("no new list: the API server still had its history")
	}
	load.report()
}

const silence = "dnsconfigurer_dns_api_silence_seconds"

// audit is the API server's record of requests.
type audit struct {
	flags []string
	log   string
}

func newAudit(t *testing.T) audit {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	const text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verbs: [list, watch]}]\n"
	must.Succeed(t, os.WriteFile(policy, []byte(text), 0o600))
	a := audit{log: filepath.Join(dir, "audit.log")}
	a.flags = []string{"--audit-policy-file=" + policy, "--audit-log-path=" + a.log}
	return a
}

// lists returns the number of lists that the server has requested, streamed or not.
func (a audit) lists(t *testing.T) (n int) {
	t.Helper()
	f := must.Get(os.Open(a.log))(t)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct{ Stage, Verb, UserAgent, RequestURI string }
		if json.Unmarshal(lines.Bytes(), &e) != nil { // the last line may be incomplete
			continue
		}
		isList := e.Verb == "list" || strings.Contains(e.RequestURI, "sendInitialEvents=true")
		if isList && e.Stage == "RequestReceived" && strings.HasPrefix(e.UserAgent, "dnsconfigurer-dns/") {
			n++
		}
	}
	return n
}
