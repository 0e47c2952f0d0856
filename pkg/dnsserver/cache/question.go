// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"

	"github.com/miekg/dns"
)

const (
	maxName     = 255 // octets on the wire, RFC 1035 section 2.3.4
	maxQuestion = maxName + 4
)

// Question holds everything that an answer depends on. The case of Name is ignored in
// comparisons and preserved in replies.
type Question struct {
	Name   []byte // wire form, not compressed
	Type   uint16
	Class  uint16
	DO, CD bool   // the bits of the query (RFC 3225, RFC 4035 section 3.2.2)
	Paths  []byte // the search list of an expansion in any form; empty for other queries
}

// NewQuestion returns the question of a query. It reports false unless there is exactly one
// question, with a valid name.
func NewQuestion(query *dns.Msg, paths []byte) (Question, bool) {
	if len(query.Question) != 1 {
		return Question{}, false
	}
	question := query.Question[0]
	name := make([]byte, maxName)
	n, err := dns.PackDomainName(question.Name, name, 0, nil, false)
	if err != nil {
		return Question{}, false
	}
	q := Question{Name: name[:n], Type: question.Qtype, Class: question.Qclass, CD: query.CheckingDisabled, Paths: paths}
	if opt := query.IsEdns0(); opt != nil {
		q.DO = opt.Do()
	}
	return q, true
}

// key is a Question in comparable form: the question section in lower case, with which
// entries start, and the rest.
type key struct {
	question []byte
	bits     byte
	paths    []byte
}

// key writes the question section to buf, which needs a capacity of maxQuestion. It reports
// false if the length of the name is invalid.
func (q *Question) key(buf []byte) (key, bool) {
	if len(q.Name) == 0 || len(q.Name) > maxName {
		return key{}, false
	}
	buf = append(buf, q.Name...)
	for i, c := range buf { // length octets are below 'A'
		if 'A' <= c && c <= 'Z' {
			buf[i] = c | 0x20
		}
	}
	buf = binary.BigEndian.AppendUint16(buf, q.Type)
	buf = binary.BigEndian.AppendUint16(buf, q.Class)
	return key{question: buf, bits: q.bits(), paths: q.Paths}, true
}

func (q *Question) bits() byte {
	var b byte
	if q.DO {
		b |= 1
	}
	if q.CD {
		b |= 2
	}
	return b
}

func (k key) hash(seed maphash.Seed) uint64 {
	h := maphash.Bytes(seed, k.question) + uint64(k.bits)
	if len(k.paths) > 0 {
		h ^= bits.RotateLeft64(maphash.Bytes(seed, k.paths), 1)
	}
	return h
}

// matches reports whether e is the entry of k.
func (k key) matches(e *entry) bool {
	return e.bits == k.bits && bytes.Equal(e.wire[headerLen:e.questionEnd], k.question) && bytes.Equal(e.paths, k.paths)
}
