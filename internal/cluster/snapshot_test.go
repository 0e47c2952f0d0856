// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// smallSnapshot has every kind of object and every field.
func smallSnapshot() *Snapshot {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	return &Snapshot{
		SnapshotHeader: SnapshotHeader{Domain: clusterLocal, Cluster: "uid-1", Time: time.Unix(1_700_000_000, 0), HasPods: true,
			HasExternal: true},
		Namespaces: []string{"empty", "shop"},
		Services: []*zone.Service{
			{Namespace: "shop", Name: "db", PublishNotReady: true},
			{Namespace: "shop", Name: "ext", ExternalName: "www.example"},
			{Namespace: "shop", Name: "web", ClusterIPs: []netip.Addr{v4, v6},
				Ports:    []zone.Port{{Name: "http", Protocol: "tcp", Number: 65535}},
				External: &zone.External{Addrs: []netip.Addr{v6}, Host: "lb.example"}},
		},
		EndpointSlices: []*zone.EndpointSlice{{
			Namespace: "shop", Name: "db-1.x", Service: "db", Ports: []zone.Port{{Protocol: "sctp", Number: 1}},
			Endpoints: []zone.Endpoint{{Addr: v4, Hostname: "db-0", Ready: true}, {Addr: v6}},
		}},
		Pods: []*zone.Pod{{Namespace: "shop", Name: "db-0", Addrs: []netip.Addr{v4, v6}}},
	}
}

// zoneOf returns a zone with the objects of a snapshot.
func zoneOf(t testing.TB, s *Snapshot) *zone.Snapshot {
	t.Helper()
	z := must.Get(zone.New(zone.Config{Domain: clusterLocal, Pods: zone.PodsVerified}))(t)
	z.Update(1, func(e *zone.Edit) {
		for _, r := range []resource{namespaces, services, endpointSlices, pods} {
			r.restore(e, s)
		}
		e.SetLoaded()
	})
	return z.Snapshot()
}

func encoded(t testing.TB, h SnapshotHeader, s *zone.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Succeed(t, encodeSnapshot(&b, h, s))
	return b.Bytes()
}

// sign appends the digest to a text.
func sign(text []byte) []byte {
	digest := sha256.Sum256(text)
	return append(text, digest[:]...)
}

func TestSnapshot_RoundTrip(t *testing.T) {
	want := smallSnapshot()
	h, s := want.SnapshotHeader, zoneOf(t, want)
	dir := t.TempDir()
	path := filepath.Join(dir, "zone")
	h.Time = h.Time.Add(time.Millisecond) // is cut
	for range 2 {                         // the second replaces the first
		must.Succeed(t, WriteSnapshot(path, h, s))
	}
	got, err := ReadSnapshot(path)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("there are %d files", len(files))
	}
	h.HasPods = false
	got, err = decodeSnapshot(encoded(t, h, s))
	if err != nil || got.HasPods || got.Pods != nil {
		t.Errorf("without pods: %+v, %v", got, err)
	}
}

// A file is cut at each of its bytes, and each byte is changed.
func TestSnapshot_Damaged(t *testing.T) {
	want := smallSnapshot()
	whole := encoded(t, want.SnapshotHeader, zoneOf(t, want))
	for i := range whole {
		if got, err := decodeSnapshot(whole[:i]); err == nil {
			t.Errorf("the first %d bytes of %d give %+v", i, len(whole), got)
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		if got, err := decodeSnapshot(changed); err == nil {
			t.Errorf("with byte %d changed: %+v", i, got)
		}
	}
	if _, err := decodeSnapshot(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("an extra byte is accepted")
	}
	for text, problem := range map[string]string{
		"#!/bin/sh\n":                          "is not a snapshot of this version",
		"dnsconfigurer zone\n\x01":             "is not a snapshot of this version", // format 1
		snapshotMagic:                          "is invalid: EOF",
		string(whole[:len(whole)-32]) + "more": "is invalid: 4 extra bytes at the end",
	} {
		if got, err := decodeSnapshot(sign([]byte(text))); got != nil || err == nil || err.Error() != problem {
			t.Errorf("%.30q: got %+v, %v; want %q", text, got, err, problem)
		}
	}
}

// Objects that a zone must not have are refused, although the digest is right.
func TestSnapshot_InvalidObjects(t *testing.T) {
	for problem, edit := range map[string]func(*Snapshot){
		"must not contain dots":   func(s *Snapshot) { s.Namespaces[1] = "a.b" },
		"no more than 63":         func(s *Snapshot) { s.Services[0].Name = strings.Repeat("a", 64) },
		"port is 0":               func(s *Snapshot) { s.EndpointSlices[0].Ports[0].Number = 0 },
		"is not an address":       func(s *Snapshot) { s.EndpointSlices[0].Endpoints[1].Addr = netip.Addr{} },
		"status.podIPs: invalid ": func(s *Snapshot) { s.Pods[0].Addrs[0] = netip.Addr{} },
	} {
		s := smallSnapshot()
		edit(s)
		b := bytes.NewBufferString(snapshotMagic)
		must.Succeed(t, gob.NewEncoder(b).Encode(s))
		if got, err := decodeSnapshot(sign(b.Bytes())); got != nil || err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got %+v, %v; want %q", got, err, problem)
		}
	}
}

func TestCheckUsable_Reasons(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	file := SnapshotHeader{Domain: clusterLocal, Cluster: "uid-1", Time: now.Add(-time.Hour)}
	tests := []struct {
		name string
		want SnapshotHeader
		age  time.Duration // the greatest allowed
		err  string
	}{
		{"the same", SnapshotHeader{Domain: clusterLocal, Cluster: "uid-1"}, time.Hour, ""},
		{"too old by a nanosecond", SnapshotHeader{Domain: clusterLocal, Cluster: "uid-1"}, time.Hour - 1, "is 1h0m0s old: the limit is"},
		{"a cluster not known yet", SnapshotHeader{Domain: clusterLocal}, time.Hour, ""},
		{"another cluster", SnapshotHeader{Domain: clusterLocal, Cluster: "uid-2"}, time.Hour, "UID of kube-system is uid-1, want uid-2"},
		{"another domain", SnapshotHeader{Domain: fqdn.Join(fqdn.Root, "local"), Cluster: "uid-1"}, time.Hour,
			"is of another cluster domain, want local."},
		{"pods are wanted", SnapshotHeader{Domain: clusterLocal, HasPods: true}, time.Hour, "has no pods"},
		{"external addresses are wanted", SnapshotHeader{Domain: clusterLocal, HasExternal: true}, time.Hour, "has no external addresses"},
	}
	for _, tt := range tests {
		err := file.CheckUsable(tt.want, now, tt.age)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.err)
		}
	}
	// If the clock is set back, no file is old.
	if err := file.CheckUsable(file, now.Add(-24*365*time.Hour), time.Hour); err != nil {
		t.Error(err)
	}
}

// The error contains the path.
func TestSnapshot_FileErrors(t *testing.T) {
	s := smallSnapshot()
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent", "zone")
	err := WriteSnapshot(absent, s.SnapshotHeader, zoneOf(t, s))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), absent) {
		t.Errorf("got %v", err)
	}
	if _, err := ReadSnapshot(absent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := ReadSnapshot(dir); err == nil || !strings.Contains(err.Error(), dir+": not a regular file") {
		t.Errorf("got %v", err)
	}
	for size, want := range map[int64]string{maxSnapshot: "is not a snapshot", maxSnapshot + 1: "larger than 268435456 bytes"} {
		large := filepath.Join(dir, "large")
		must.Succeed(t, errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, size)))
		if _, err := ReadSnapshot(large); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}

// FuzzSnapshot checks that decodeSnapshot returns an error or a Snapshot that a zone accepts, and that
// encodeSnapshot is its inverse.
func FuzzSnapshot(f *testing.F) {
	want := smallSnapshot()
	whole := encoded(f, want.SnapshotHeader, zoneOf(f, want))
	f.Add(string(whole[:len(whole)-sha256.Size]))
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = decodeSnapshot([]byte(text))
		s, err := decodeSnapshot(sign([]byte(text)))
		if err != nil || s.CheckUsable(SnapshotHeader{Domain: clusterLocal}, time.Time{}, 0) != nil {
			return
		}
		z := zoneOf(t, s)
		for svc := range z.Services() {
			_, _, node := z.Lookup(fqdn.Join(s.Domain, svc.Name, svc.Namespace, "svc"))
			_ = node.SRV(100)
		}
		again, err := decodeSnapshot(encoded(t, s.SnapshotHeader, z))
		if err != nil || again.Domain != s.Domain || len(again.Services) > len(s.Services) {
			t.Fatalf("got %+v, %v from %+v", again, err, s)
		}
	})
}
