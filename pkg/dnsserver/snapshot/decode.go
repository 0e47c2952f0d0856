// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// State is the content of a file: a Header, and valid objects for a zone of its Domain.
type State struct {
	Header
	Namespaces     []string
	Services       []zone.Service
	EndpointSlices []zone.EndpointSlice
	Pods           []zone.Pod
}

// maxString bounds the length of a string in bytes: a domain name as text, with all bytes
// escaped.
const maxString = 4 * fqdn.MaxWire

var errShort = errors.New("unexpected end of file")

// Decode parses the output of Encode. It returns all of it, or an error.
func Decode(data []byte) (*State, error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil, errors.New("is not a snapshot of a zone")
	}
	d := decoder{data: data[len(magic):]}
	// The version is checked before the digest: another version may have another digest.
	if v := d.number(); d.err == nil && v != version {
		return nil, fmt.Errorf("has format version %d, this program reads %d", v, version)
	}
	if len(d.data) < sha256.Size {
		return nil, errShort
	}
	end := len(data) - sha256.Size
	if digest := sha256.Sum256(data[:end]); !bytes.Equal(digest[:], data[end:]) {
		return nil, errors.New("is incomplete or damaged: digest mismatch")
	}
	d.data = d.data[:len(d.data)-sha256.Size]
	s := d.state()
	if d.err == nil && len(d.data) > 0 {
		d.err = fmt.Errorf("%d extra bytes at the end", len(d.data))
	}
	if d.err != nil {
		return nil, fmt.Errorf("is invalid: %w", d.err)
	}
	return s, nil
}

// decoder reads values from the front of data. After the first error it returns zero
// values.
type decoder struct {
	data []byte
	err  error
}

// fail records the first error and stops the decoder.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.data = nil
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) flag(flag uint64) bool {
	v := d.number()
	if v != 0 && v != flag {
		d.fail(fmt.Errorf("unknown flags %#x", v))
	}
	return v != 0
}

func (d *decoder) bytes(limit uint64) []byte {
	n := d.number()
	if n > limit {
		d.fail(fmt.Errorf("string of %d bytes: the limit is %d", n, limit))
		return nil
	}
	if n > uint64(len(d.data)) {
		d.fail(errShort)
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes(maxString)) }

// count reads a number of items and bounds it by the remaining data, for items of at least
// size bytes.
func (d *decoder) count(size int) int {
	n := d.number()
	if n > uint64(len(d.data)/size) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

func (d *decoder) addr() netip.Addr {
	a, ok := netip.AddrFromSlice(d.bytes(16))
	if !ok {
		d.fail(errors.New("address is not 4 or 16 bytes long"))
	}
	return a
}

// listOf reads a list of items that pass check.
func listOf[T any](d *decoder, get func() T, check func(*T) error) []T {
	var items []T
	for d.number() == 1 {
		item := get()
		if d.err == nil {
			if err := check(&item); err != nil {
				d.fail(err)
			}
		}
		items = append(items, item)
	}
	return items
}

func (d *decoder) state() *State {
	s := &State{}
	s.Domain = fqdn.Name(d.bytes(fqdn.MaxWire))
	if again, err := fqdn.ParseName(nameText(s.Domain)); err != nil || again != s.Domain {
		d.fail(errors.New("invalid domain"))
	}
	s.Cluster = d.string()
	s.Time = time.Unix(int64(min(d.number(), 1<<40)), 0)
	s.HasPods = d.flag(hasPods)
	s.Namespaces = listOf(d, d.string, func(ns *string) error { return zone.CheckNamespace(s.Domain, *ns) })
	s.Services = listOf(d, d.service, func(o *zone.Service) error { return o.Check(s.Domain) })
	s.EndpointSlices = listOf(d, d.slice, func(o *zone.EndpointSlice) error { return o.Check(s.Domain) })
	if s.HasPods {
		s.Pods = listOf(d, d.pod, func(o *zone.Pod) error { return o.Check(s.Domain) })
	}
	return s
}

// nameText returns the name as text, or "" if its labels are invalid.
func nameText(n fqdn.Name) string {
	at := 0
	for at < len(n) && n[at] != 0 {
		at += 1 + int(n[at])
	}
	if at != len(n)-1 {
		return ""
	}
	return n.String()
}

func (d *decoder) ports() []zone.Port {
	ports := make([]zone.Port, d.count(3))
	for i := range ports {
		ports[i].Name = d.string()
		ports[i].Protocol = protocol(d.bytes(maxString))
		n := d.number()
		if n > 1<<16-1 {
			d.fail(fmt.Errorf("port %d out of range", n))
		}
		ports[i].Number = uint16(n)
	}
	return ports
}

// protocol returns b as a string, without an allocation for the usual protocols.
func protocol(b []byte) string {
	for _, p := range []string{"tcp", "udp", "sctp"} {
		if string(b) == p {
			return p
		}
	}
	return string(b)
}

func (d *decoder) addrs() []netip.Addr {
	addrs := make([]netip.Addr, d.count(5))
	for i := range addrs {
		addrs[i] = d.addr()
	}
	return addrs
}

func (d *decoder) service() zone.Service {
	s := zone.Service{Namespace: d.string(), Name: d.string(), ExternalName: d.string()}
	s.PublishNotReady = d.flag(publishNotReady)
	s.ClusterIPs = d.addrs()
	s.Ports = d.ports()
	return s
}

func (d *decoder) slice() zone.EndpointSlice {
	s := zone.EndpointSlice{Namespace: d.string(), Name: d.string(), Service: d.string()}
	s.Ports = d.ports()
	s.Endpoints = make([]zone.Endpoint, d.count(7))
	for i := range s.Endpoints {
		s.Endpoints[i] = zone.Endpoint{Addr: d.addr(), Hostname: d.string(), Ready: d.flag(ready)}
	}
	return s
}

func (d *decoder) pod() zone.Pod {
	return zone.Pod{Namespace: d.string(), Name: d.string(), Addrs: d.addrs()}
}
