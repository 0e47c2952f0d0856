// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"iter"
	"net/netip"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// A file starts with the magic line and the version of the format, and ends with the SHA-256
// of all preceding bytes. Numbers are varints, and strings are preceded by their length.
// In a list, every item is preceded by 1, and the end is 0.
const (
	magic   = "dnsconfigurer zone\n"
	version = 1
)

// Flags of the header and the objects.
const (
	hasPods         = 1
	publishNotReady = 1
	ready           = 1
)

// Header identifies the zone in a file.
type Header struct {
	// Domain is the domain of the zone.
	Domain fqdn.Name

	// Cluster is the UID of the namespace kube-system, "" if unknown.
	Cluster string

	// Time is the time of the data, in whole seconds.
	Time time.Time

	// HasPods is set if the file contains the pods.
	HasPods bool
}

// Encode writes a zone to w.
func Encode(w io.Writer, h Header, s *zone.Snapshot) error {
	digest := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(w, digest), 64<<10)
	e := encoder{w: buffered}
	e.header(h)
	list(&e, s.Namespaces(), e.string)
	list(&e, s.Services(), e.service)
	list(&e, s.EndpointSlices(), e.slice)
	if h.HasPods {
		list(&e, s.Pods(), e.pod)
	}
	if err := buffered.Flush(); err != nil { // returns the first error of all writes
		return err
	}
	_, err := w.Write(digest.Sum(nil))
	return err
}

type encoder struct {
	w       *bufio.Writer
	scratch [binary.MaxVarintLen64]byte
}

func (e *encoder) number(n uint64) {
	_, _ = e.w.Write(e.scratch[:binary.PutUvarint(e.scratch[:], n)])
}

func (e *encoder) flag(set bool, flag uint64) {
	if !set {
		flag = 0
	}
	e.number(flag)
}

func (e *encoder) string(s string) {
	e.number(uint64(len(s)))
	_, _ = e.w.WriteString(s)
}

func (e *encoder) addr(a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		e.number(uint64(len(b)))
		_, _ = e.w.Write(b[:])
		return
	}
	b := a.As16()
	e.number(uint64(len(b)))
	_, _ = e.w.Write(b[:])
}

func list[T any](e *encoder, items iter.Seq[T], put func(T)) {
	for item := range items {
		e.number(1)
		put(item)
	}
	e.number(0)
}

func (e *encoder) header(h Header) {
	_, _ = e.w.WriteString(magic)
	e.number(version)
	e.string(string(h.Domain))
	e.string(h.Cluster)
	e.number(uint64(max(0, h.Time.Unix())))
	e.flag(h.HasPods, hasPods)
}

func (e *encoder) ports(ports []zone.Port) {
	e.number(uint64(len(ports)))
	for _, p := range ports {
		e.string(p.Name)
		e.string(p.Protocol)
		e.number(uint64(p.Number))
	}
}

func (e *encoder) addrs(addrs []netip.Addr) {
	e.number(uint64(len(addrs)))
	for _, a := range addrs {
		e.addr(a)
	}
}

func (e *encoder) service(s *zone.Service) {
	e.string(s.Namespace)
	e.string(s.Name)
	e.string(s.ExternalName)
	e.flag(s.PublishNotReady, publishNotReady)
	e.addrs(s.ClusterIPs)
	e.ports(s.Ports)
}

func (e *encoder) slice(s *zone.EndpointSlice) {
	e.string(s.Namespace)
	e.string(s.Name)
	e.string(s.Service)
	e.ports(s.Ports)
	e.number(uint64(len(s.Endpoints)))
	for _, ep := range s.Endpoints {
		e.addr(ep.Addr)
		e.string(ep.Hostname)
		e.flag(ep.Ready, ready)
	}
}

func (e *encoder) pod(p *zone.Pod) {
	e.string(p.Namespace)
	e.string(p.Name)
	e.addrs(p.Addrs)
}
