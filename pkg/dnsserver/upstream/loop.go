// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// LoopDetector detects forwarding loops: upstream servers that send queries back to this
// server, directly or through others. A host's resolv.conf that names the cluster DNS is
// enough for one. A probe is a query for a random name; if this server receives it, there
// is a loop.
//
// Several replicas behind one address share a key. The name of a probe proves that its
// sender has the key. A replica that receives the probe of another one answers it with a
// record that proves the same. If that record comes back, there is a loop, whichever
// replica the address led to.
//
// The zero value is ready to use, with a random key. All clients of a process share one
// LoopDetector with the server that would receive the probes.
type LoopDetector struct {
	mu      sync.Mutex
	key     []byte          // nil: not yet needed
	probes  map[string]bool // in flight, by name; true: received
	clients map[*Client]bool
}

// probeType is a type that clients hardly ever query, so that [LoopDetector.DetectProbe]
// takes no lock for their queries.
const probeType = dns.TypeHINFO

// Lengths of the first two labels of a probe's name, in octets before they are encoded as
// hexadecimal digits.
const (
	probeRandom = 16
	probeProof  = 8
)

// SetKey sets the key that the replicas of a server share, such as the identity of their
// cluster, and starts a probe of all servers. Servers that may forward to each other must
// not share a key: a node cache would take the cluster DNS for a loop.
func (l *LoopDetector) SetKey(key string) {
	sum := sha256.Sum256([]byte(key))
	l.mu.Lock()
	l.key = sum[:]
	clients := slices.Collect(maps.Keys(l.clients))
	l.mu.Unlock()
	for _, c := range clients {
		c.wake()
	}
}

// register makes SetKey wake c, until the returned function is called.
func (l *LoopDetector) register(c *Client) (unregister func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients = map[*Client]bool{}
	}
	l.clients[c] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.clients, c)
	}
}

// proof returns the HMAC of the text, cut to a number of octets, in hexadecimal digits: only
// servers with the key can compute it. purpose separates the proofs in names from those in
// records.
func (l *LoopDetector) proof(purpose, text string, octets int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == nil {
		l.key = make([]byte, sha256.Size)
		rand.Read(l.key) // never fails
	}
	h := hmac.New(sha256.New, l.key)
	h.Write([]byte(purpose + " " + text))
	return hex.EncodeToString(h.Sum(nil)[:octets])
}

// Purposes of proofs.
const (
	proofName   = "probe"
	proofRecord = "answer"
)

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

// AnswerProbe returns the record for a probe of a server with the same key, or nil for all
// other names. The server must answer a query of type HINFO with it. Its TTL is 0.
func (l *LoopDetector) AnswerProbe(name string) dns.RR {
	random, rest, _ := strings.Cut(strings.ToLower(name), ".")
	proof, zone, ok := strings.Cut(rest, ".")
	if !ok || len(random) != 2*probeRandom || len(proof) != 2*probeProof {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(proof), []byte(l.proof(proofName, random+"."+zone, probeProof))) == 0 {
		return nil
	}
	return &dns.HINFO{
		Hdr: dns.RR_Header{Name: name, Rrtype: probeType, Class: dns.ClassINET},
		Cpu: l.proof(proofRecord, strings.ToLower(name), probeRandom),
	}
}

// isAnswer reports whether m has the record with which a server with the same key answers
// the probe.
func (l *LoopDetector) isAnswer(name string, m *dns.Msg) bool {
	want := l.proof(proofRecord, name, probeRandom)
	return m != nil && slices.ContainsFunc(m.Answer, func(r dns.RR) bool {
		h, ok := r.(*dns.HINFO)
		return ok && h.Cpu == want
	})
}

// startProbe returns the name of a new probe below zone. It has two labels: some resolvers
// do not forward names of a single label.
func (l *LoopDetector) startProbe(zone string) string {
	var b [probeRandom]byte
	rand.Read(b[:]) // never fails
	random, zone := hex.EncodeToString(b[:]), strings.TrimPrefix(strings.ToLower(zone), ".")
	name := random + "." + l.proof(proofName, random+"."+zone, probeProof) + "." + zone
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
