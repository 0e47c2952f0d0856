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

// LoopDetector detects forwarding loops: upstream servers that send queries back to this
// server, directly or through others. A host's resolv.conf that names the cluster DNS is
// enough for one. A probe is a query for a random name; if this server receives it, there
// is a loop.
//
// The zero value is ready to use. All clients of a process share one LoopDetector with the
// server that would receive the probes.
type LoopDetector struct {
	mu     sync.Mutex
	probes map[string]bool // in flight, by name; true: received
}

// probeType is a type that clients hardly ever query, so that [LoopDetector.DetectProbe]
// takes no lock for their queries.
const probeType = dns.TypeHINFO

// DetectProbe reports whether q, received from the network, is a probe in flight, and
// records the loop. The server must refuse such a query and not forward it.
func (l *LoopDetector) DetectProbe(q dns.Question) bool {
	if q.Qtype != probeType {
		return false
	}
	name := strings.ToLower(q.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.probes[name]; !ok {
		return false
	}
	l.probes[name] = true
	return true
}

// startProbe returns the name of a new probe below zone. It has two random labels:
// some resolvers do not forward names of a single label.
func (l *LoopDetector) startProbe(zone string) string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	name := hex.EncodeToString(b[:16]) + "." + hex.EncodeToString(b[16:]) + "." + strings.TrimPrefix(zone, ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probes == nil {
		l.probes = map[string]bool{}
	}
	l.probes[name] = false
	return name
}

// endProbe removes a probe and reports whether it was received.
func (l *LoopDetector) endProbe(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer delete(l.probes, name)
	return l.probes[name]
}
