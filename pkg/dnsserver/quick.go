// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// quick answers what is asked most, from wire form to wire form: addresses in the
// cluster, what the cluster lacks, and what the cache has. It takes no memory and no
// lock. What it does not answer goes the plain way, by [Server.handle], which answers
// everything: the two must agree wherever both answer.
//
// A quick is one reader's.
type quick struct {
	server *Server
	tally  tally
	master fqdn.Name          // of the SOA record
	name   [fqdn.MaxWire]byte // the name asked for, canonical
}

func newQuick(s *Server) *quick {
	return &quick{server: s, tally: tally{metrics: s.metrics}, master: zone.PrimaryName(s.cfg.Domain)}
}

// result is what became of a packet.
type result struct {
	reply   []byte // nil: it goes the plain way
	refresh bool   // the cache wants the answer anew, whatever became of the packet
	dropped bool   // a fault of ours: no reply
}

// answer answers a packet. The reply is in room, which is empty and has place for
// maxUDP.
func (k *quick) answer(packet, room []byte, now time.Time) (r result) {
	r.dropped = true // unless it comes to a return
	defer k.server.contain()
	q, ok := k.parse(packet)
	if !ok {
		return result{}
	}
	from, paths := k.server.forwarding.Load(), []byte(nil)
	if _, searched := q.name.Within(k.server.search.Suffix); searched { // also where the suffix is in the cluster's domain
		if from.Expander == nil {
			return result{}
		}
		paths = from.suffixes
	} else {
		reply, rcode := k.fromZone(&q, room)
		if reply != nil {
			k.tally.count(tallyZone, rcode)
			return result{reply: reply}
		}
		if rcode != notOurs || from.exchange(q.name) == nil {
			return result{}
		}
	}
	r = k.fromCache(&q, paths, room, now)
	if r.reply != nil {
		k.tally.count(tallyCache, int(r.reply[3]&15))
	}
	return r
}

// notOurs is the rcode of no reply: the name is not the cluster's.
const notOurs = -1

// fromZone returns the zone's reply and its rcode; no reply if it needs more than one
// look-up or does not fit.
func (k *quick) fromZone(q *asked, room []byte) ([]byte, int) {
	snapshot := k.server.cfg.Zone.Snapshot()
	verdict, apex, node := snapshot.Lookup(q.name)
	switch {
	case verdict == zone.NotInZone:
		return nil, notOurs
	case verdict == zone.NXDomain:
		return k.denial(q, room, dns.RcodeNameError, apex, snapshot), dns.RcodeNameError
	case verdict != zone.Exists || node.Alias != "":
		return nil, 0
	}
	switch addrs := node.V4; q.qtype {
	case dns.TypeAAAA:
		addrs = node.V6
		fallthrough
	case dns.TypeA:
		if len(addrs) == 0 {
			return k.denial(q, room, dns.RcodeSuccess, apex, snapshot), dns.RcodeSuccess
		}
		return k.addresses(q, room, addrs), dns.RcodeSuccess
	}
	return nil, 0
}

// fromCache returns the cache's reply, if it has one that needs no asking.
func (k *quick) fromCache(q *asked, paths, room []byte, now time.Time) (r result) {
	cd := q.header[3]&bitCD != 0
	hit := k.server.cfg.Cache.Get(cache.Question{
		Name: q.question[:len(q.question)-fixedQuestion], Type: q.qtype, Class: dns.ClassINET, DO: q.do, CD: cd, Paths: paths,
	}, now)
	r.refresh = hit.State == cache.Expiring
	if hit.State != cache.Fresh && !r.refresh || hit.Len() > q.size {
		return r
	}
	r.reply = hit.Append(room, cache.ReplyOptions{
		ID: binary.BigEndian.Uint16(q.header), RD: q.header[2]&bitRD != 0, AD: q.do || q.header[3]&bitAD != 0,
	})
	r.reply = q.appendOPT(r.reply)
	k.tally.hits[hit.State]++
	return r
}
