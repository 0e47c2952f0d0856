// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Bounds of what is counted by client. A counter of queries takes about 250 octets, one of a name at most 500.
const (
	maxClients = 4096 // of a tally; the others are counted together
	maxNames   = 1000 // of a tally, see nameTally

	// clientPeriod is the length of a period. A report has the present period and the one before: nothing is kept
	// longer than a day, and a report soon after a change of periods still has half a day.
	clientPeriod = 12 * time.Hour
)

// MaxDots is the number of elements of the counters by dots. The last element has the names with as many dots or
// more, which a resolver with the largest useful ndots, five, tries first as they are.
const MaxDots = 6

// ClientCounts are the queries of a client, by what became of them. Names below a search domain that do not exist
// have counters of their own: a resolver most often asks for them because it tries its search list.
type ClientCounts struct {
	Queries uint64 `json:"queries"`
	Failed  uint64 `json:"failed,omitempty"` // rcodes other than NOERROR and NXDOMAIN

	Absent        uint64          `json:"absent,omitempty"`        // NXDOMAIN, not below a search domain
	AbsentService uint64          `json:"absentService,omitempty"` // NXDOMAIN below svc in the cluster domain
	AbsentCluster [MaxDots]uint64 `json:"absentCluster"`           // NXDOMAIN elsewhere in it, by the dots of the part before the domain
	AbsentHost    [MaxDots]uint64 `json:"absentHost"`              // NXDOMAIN below a search domain of the node, by the dots before it
}

// Add adds the counts of more.
func (c *ClientCounts) Add(more ClientCounts) {
	c.combine(more, func(count *uint64, n uint64) { *count += n })
}

// NXDomain returns the number of names that do not exist.
func (c ClientCounts) NXDomain() uint64 {
	sum := c.Absent + c.AbsentService
	for i := range MaxDots {
		sum += c.AbsentCluster[i] + c.AbsentHost[i]
	}
	return sum
}

// Scale returns the counts times a factor.
func (c ClientCounts) Scale(factor float64) (scaled ClientCounts) {
	scaled.combine(c, func(count *uint64, n uint64) { *count = uint64(float64(n) * factor) })
	return scaled
}

func (c *ClientCounts) combine(with ClientCounts, f func(count *uint64, n uint64)) {
	f(&c.Queries, with.Queries)
	f(&c.Failed, with.Failed)
	f(&c.Absent, with.Absent)
	f(&c.AbsentService, with.AbsentService)
	for i := range MaxDots {
		f(&c.AbsentCluster[i], with.AbsentCluster[i])
		f(&c.AbsentHost[i], with.AbsentHost[i])
	}
}

// Client is a client with its queries.
type Client struct {
	Address netip.Addr `json:"address"`
	ClientCounts
}

// ClientName is a name that a client asks for often.
type ClientName struct {
	Address netip.Addr `json:"address"`
	Name    string     `json:"name"`
	Queries uint64     `json:"queries"`          // at most Error too many
	Error   uint64     `json:"error,omitempty"`  // queries for other names that may have been counted
	Absent  bool       `json:"absent,omitempty"` // the last reply was NXDOMAIN
}

// ClientReport is who asked what since a time.
type ClientReport struct {
	Since   time.Time    `json:"since"`
	Until   time.Time    `json:"until"`
	Clients []Client     `json:"clients"`
	Others  ClientCounts `json:"others"`          // of clients without a counter, if there are too many
	Names   []ClientName `json:"names,omitempty"` // with ClientStatistics names
}

// ClientStatistics is what the server counts by client.
type ClientStatistics uint8

const (
	CountClients ClientStatistics = iota // the queries of each client
	CountNames                           // and the names that each asks for most often, without those that its search list makes
	CountNothing                         // Clients returns an empty report
)

// tallies has what is counted by client. Each reader of a socket has a tally, so that processors do not write to the
// same memory.
type tallies struct {
	statistics ClientStatistics
	domain     fqdn.Name // of the cluster
	service    fqdn.Name // svc in domain
	started    time.Time

	mu   sync.Mutex
	list []*tally
}

func newTallies(statistics ClientStatistics, domain fqdn.Name) *tallies {
	return &tallies{statistics: statistics, domain: domain, service: fqdn.Join(domain, "svc"), started: time.Now()}
}

// add returns a new tally.
func (t *tallies) add() *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	added := &tally{tallies: t}
	t.list = append(t.list, added)
	return added
}

// tally is a part of the counts. Its methods are safe for concurrent use.
type tally struct {
	*tallies

	mu     sync.Mutex
	period int64
	counts [2]periodCounts // of the present period and the one before
}

// periodCounts are the counts of a period. The zero value is empty.
type periodCounts struct {
	clients map[netip.Addr]*ClientCounts
	others  ClientCounts
	names   nameTally
}

// count counts a reply. The name must be valid during the call only.
func (t *tally) count(q *query, r *reply, hostDomains []fqdn.Name) {
	if t.statistics == CountNothing || r.wire == nil || q.question == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(q.received)
	now, client := &t.counts[0], q.client.Unmap() // a socket for both families has mapped addresses
	c := now.of(client)
	c.Queries++
	isMade := false // by a search list
	switch {
	case r.rcode == dns.RcodeNameError:
		isMade = t.countAbsent(c, q.name, hostDomains)
	case r.rcode != dns.RcodeSuccess:
		c.Failed++
	}
	if t.statistics == CountNames && !isMade {
		now.names.count(nameKey{client, q.name}, r.rcode == dns.RcodeNameError)
	}
}

// turn begins a new period if it is time for one.
func (t *tally) turn(now time.Time) {
	switch period := int64(now.Sub(t.started) / clientPeriod); {
	case period <= t.period: // a query may be older than the last one
		return
	case period == t.period+1:
		t.counts[1], t.counts[0], t.period = t.counts[0], periodCounts{}, period
	default:
		t.counts, t.period = [2]periodCounts{}, period
	}
}

// of returns the counts of a client.
func (p *periodCounts) of(client netip.Addr) *ClientCounts {
	if c := p.clients[client]; c != nil {
		return c
	}
	if len(p.clients) >= maxClients {
		return &p.others
	}
	if p.clients == nil {
		p.clients = map[netip.Addr]*ClientCounts{}
	}
	c := new(ClientCounts)
	p.clients[client] = c
	return c
}

// countAbsent counts a name that does not exist. It reports whether a search list may have made the name.
func (t *tally) countAbsent(c *ClientCounts, name fqdn.Name, hostDomains []fqdn.Name) bool {
	if _, ok := name.Within(t.service); ok {
		c.AbsentService++
		return true
	}
	if below, ok := name.Within(t.domain); ok {
		c.AbsentCluster[dots(below)]++
		return true
	}
	for _, domain := range hostDomains {
		if below, ok := name.Within(domain); ok && below != "" {
			c.AbsentHost[dots(below)]++
			return true
		}
	}
	c.Absent++
	return false
}

// dots returns the number of dots between labels, at most MaxDots-1.
func dots(labels fqdn.Name) int {
	n := 0
	for i := 0; i < len(labels); i += 1 + int(labels[i]) {
		n++
	}
	return min(max(n-1, 0), MaxDots-1)
}

// report returns the counts of all tallies.
func (t *tallies) report(now time.Time) ClientReport {
	period := max(int64(now.Sub(t.started)/clientPeriod)-1, 0)
	r := ClientReport{Since: t.started.Add(time.Duration(period) * clientPeriod), Until: now}
	all, names := map[netip.Addr]*ClientCounts{}, map[nameKey]*nameCounter{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, part := range t.list {
		part.addTo(all, names, &r.Others, now)
	}
	for addr, counts := range all {
		r.Clients = append(r.Clients, Client{addr, *counts})
	}
	for key, n := range names {
		r.Names = append(r.Names, ClientName{key.client, key.name.String(), n.queries, n.error, n.absent})
	}
	return r
}

// addTo adds the counts of a tally.
func (t *tally) addTo(all map[netip.Addr]*ClientCounts, names map[nameKey]*nameCounter, others *ClientCounts, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	for i := range t.counts {
		p := &t.counts[i]
		others.Add(p.others)
		for addr, counts := range p.clients {
			if all[addr] == nil {
				all[addr] = new(ClientCounts)
			}
			all[addr].Add(*counts)
		}
		for _, n := range p.names.counters {
			if names[n.key] == nil {
				names[n.key] = new(nameCounter)
			}
			names[n.key].queries += n.queries
			names[n.key].error += n.error
			names[n.key].absent = n.absent
		}
	}
}

type nameKey struct {
	client netip.Addr
	name   fqdn.Name
}

// nameTally finds the names that are asked for most often, with a bounded number of counters: a new name takes
// over the smallest counter with its value (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k
// Elements in Data Streams, 2005). A name with more than a maxNames-th of all queries always has a counter.
type nameTally struct {
	index    map[nameKey]int // in counters
	counters []nameCounter
}

type nameCounter struct {
	key     nameKey
	queries uint64
	error   uint64 // the value of the counter when the name took it over
	absent  bool
}

// count counts a query for a name, which must be valid during the call only. A name without a counter takes a
// microsecond: few compared with the query to another server that it most often is.
func (t *nameTally) count(key nameKey, absent bool) {
	i, ok := t.index[key]
	if !ok {
		key.name = fqdn.Name(strings.Clone(string(key.name)))
		i = t.free()
		t.counters[i].key, t.index[key] = key, i
	}
	t.counters[i].queries++
	t.counters[i].absent = absent
}

// free returns the index of a new counter, or of the smallest one.
func (t *nameTally) free() int {
	if t.index == nil {
		t.index = map[nameKey]int{}
	}
	if len(t.counters) < maxNames {
		t.counters = append(t.counters, nameCounter{})
		return len(t.counters) - 1
	}
	least := 0
	for i := range t.counters {
		if t.counters[i].queries < t.counters[least].queries {
			least = i
		}
	}
	delete(t.index, t.counters[least].key)
	t.counters[least].error = t.counters[least].queries
	return least
}
