// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// LoopDetector finds out whether servers send our queries back to us, directly or through
// others: a host's resolv.conf that names the cluster DNS is enough. A probe is sent
// with a name that nobody can know, and if it comes in again there is a loop.
//
// The zero value is ready. One LoopDetector is shared by all clients of a process and by the
// server that the queries would come back to.
type LoopDetector struct {
	mu   sync.Mutex
	back map[string]bool // probes on their way: whether they came back
}

// probeType is a type that hardly anyone asks for, so that other queries pass
// [LoopDetector.DetectProbe] without a lock.
const probeType = dns.TypeHINFO

// DetectProbe is the server's end: it tells whether q, which came in from the network,
// is a probe of ours. Such a query is refused; it must not be sent on.
func (l *LoopDetector) DetectProbe(q dns.Question) bool {
	if q.Qtype != probeType {
		return false
	}
	name := strings.ToLower(q.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ours := l.back[name]; !ours {
		return false
	}
	l.back[name] = true
	return true
}

// begin returns the name of a probe into zone. It has two labels of its own: some
// resolvers do not forward single ones.
func (l *LoopDetector) begin(zone string) string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	name := hex.EncodeToString(b[:16]) + "." + hex.EncodeToString(b[16:]) + "." + strings.TrimPrefix(zone, ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back == nil {
		l.back = map[string]bool{}
	}
	l.back[name] = false
	return name
}

// end forgets a probe and tells whether it came back.
func (l *LoopDetector) end(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer delete(l.back, name)
	return l.back[name]
}
