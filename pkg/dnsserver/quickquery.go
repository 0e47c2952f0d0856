// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"unsafe"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// asked is a query of the quick way: one question of class IN, and perhaps an OPT
// record without a wish. Slices are the packet's.
type asked struct {
	header   []byte
	question []byte    // with type and class
	name     fqdn.Name // valid until the next query
	qtype    uint16
	edns, do bool
	size     int // of the longest reply that the client takes, its OPT record not counted
}

// Bits of the header's third and fourth octet (RFC 1035 section 4.1.1, RFC 4035
// section 3).
const (
	bitQR     = 0x80
	bitOpcode = 0x78
	bitAA     = 0x04
	bitRD     = 0x01

	bitRA = 0x80
	bitAD = 0x20
	bitCD = 0x10

	bitDO = 0x80 // in the third octet of an OPT record's TTL (RFC 3225 section 3)
)

// Lengths in octets.
const (
	fixedQuestion = 4  // type and class
	optLen        = 11 // of an OPT record without options
)

// parse reads the query. It is false for what is not this simple; the plain way
// knows whether that is malformed.
func (k *quick) parse(packet []byte) (q asked, ok bool) {
	const simple = headerLen + 1 + fixedQuestion
	if len(packet) < simple || packet[2]&(bitQR|bitOpcode) != 0 ||
		binary.BigEndian.Uint64(packet[4:])&^1 != 1<<48 { // one question, at most one additional record
		return q, false
	}
	q.header = packet[:headerLen]
	at := k.readName(packet)
	if at < 0 || at+fixedQuestion > len(packet) {
		return q, false
	}
	n := at - headerLen
	// The name is looked up and forgotten before the next one is read.
	q.name = fqdn.Name(unsafe.String(&k.name[0], n))
	q.qtype = binary.BigEndian.Uint16(packet[at:])
	if binary.BigEndian.Uint16(packet[at+2:]) != dns.ClassINET || !answerable(q.qtype) {
		return q, false
	}
	at += fixedQuestion
	q.question = packet[headerLen:at]
	q.size = minUDP
	if packet[11] == 0 {
		return q, at == len(packet)
	}
	return q, q.readOPT(packet[at:])
}

// answerable is false for the types for which names are not all that counts: the
// meta types, and HINFO, which probes for loops have.
func answerable(qtype uint16) bool {
	return qtype != 0 && qtype < 128 && qtype != dns.TypeOPT && qtype != dns.TypeHINFO
}

// readName reads the question's name and returns where it ends in packet, or -1.
func (k *quick) readName(packet []byte) int {
	at := headerLen
	for at < len(packet) {
		length := int(packet[at])
		end := at + 1 + length
		// A pointer has nothing to point at in the first name.
		if length > fqdn.MaxLabel || end > len(packet) || end-headerLen > len(k.name) {
			return -1
		}
		name := k.name[at-headerLen : end-headerLen]
		for i, c := range packet[at:end] { // lengths are below 'A'
			if 'A' <= c && c <= 'Z' {
				c |= 0x20
			}
			name[i] = c
		}
		if at = end; length == 0 {
			return at
		}
	}
	return -1
}

// readOPT reads an OPT record that is the rest of the packet. The options that it may
// have are those of which nothing is made: cookies (RFC 7873), which a server need not
// know.
func (q *asked) readOPT(rest []byte) bool {
	if len(rest) < optLen || rest[0] != 0 || binary.BigEndian.Uint16(rest[1:]) != dns.TypeOPT || rest[6] != 0 { // version 0
		return false
	}
	q.edns, q.do = true, rest[7]&bitDO != 0
	q.size = min(max(int(binary.BigEndian.Uint16(rest[3:])), minUDP), maxUDP) - optLen
	options := rest[optLen:]
	if int(binary.BigEndian.Uint16(rest[9:])) != len(options) {
		return false
	}
	for len(options) > 0 {
		if len(options) < 4 || binary.BigEndian.Uint16(options) != dns.EDNS0COOKIE {
			return false
		}
		end := 4 + int(binary.BigEndian.Uint16(options[2:]))
		if end > len(options) {
			return false
		}
		options = options[end:]
	}
	return true
}
