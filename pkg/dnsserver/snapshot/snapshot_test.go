// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
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
)

var clusterLocal = fqdn.Join(fqdn.Root, "cluster", "local")

func newZone(t testing.TB, edit func(*zone.Edit)) *zone.Snapshot {
	t.Helper()
	z, err := zone.New(zone.Config{Domain: clusterLocal, Pods: zone.PodsVerified})
	if err != nil {
		t.Fatal(err)
	}
	z.Update(1, edit)
	return z.Snapshot()
}

// small is a zone with every kind of object and every field.
func small(t testing.TB) (Header, *zone.Snapshot, *State) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	h := Header{Domain: clusterLocal, Cluster: "uid-1", Time: time.Unix(1_700_000_000, 0), HasPods: true}
	want := &State{
		Header:     h,
		Namespaces: []string{"empty", "shop"},
		Services: []zone.Service{
			{Namespace: "shop", Name: "db", PublishNotReady: true},
			{Namespace: "shop", Name: "ext", ExternalName: "www.example"},
			{Namespace: "shop", Name: "web", ClusterIPs: []netip.Addr{v4, v6},
				Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 65535}}},
		},
		EndpointSlices: []zone.EndpointSlice{{
			Namespace: "shop", Name: "db-1.x", Service: "db", Ports: []zone.Port{{Protocol: "sctp", Number: 1}},
			Endpoints: []zone.Endpoint{{Addr: v4, Hostname: "db-0", Ready: true}, {Addr: v6}},
		}},
		Pods: []zone.Pod{{Namespace: "shop", Name: "db-0", Addrs: []netip.Addr{v4, v6}}},
	}
	s := newZone(t, func(e *zone.Edit) {
		put(want.Namespaces, e.PutNamespace)
		put(want.Services, e.PutService)
		put(want.EndpointSlices, e.PutEndpointSlice)
		put(want.Pods, e.PutPod)
		e.SetLoaded()
	})
	return h, s, want
}

func put[T any](objects []T, put func(T)) {
	for _, o := range objects {
		put(o)
	}
}

func encode(t testing.TB, h Header, s *zone.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(&b, h, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sign appends the digest to a text.
func sign(text string) []byte {
	digest := sha256.Sum256([]byte(text))
	return append([]byte(text), digest[:]...)
}

func TestRead_RoundTrip(t *testing.T) {
	h, s, want := small(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "zone")
	for range 2 { // the second replaces the first
		if err := Write(path, h, s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(path)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("there are %d files", len(files))
	}
	h.HasPods = false
	got, err = Decode(encode(t, h, s))
	if err != nil || got.HasPods || got.Pods != nil {
		t.Errorf("without pods: %+v, %v", got, err)
	}
}

// A file is cut at each of its bytes, and each byte is changed.
func TestDecode_Damaged(t *testing.T) {
	h, s, _ := small(t)
	whole := encode(t, h, s)
	for i := range whole {
		if got, err := Decode(whole[:i]); err == nil {
			t.Errorf("the first %d bytes of %d give %+v", i, len(whole), got)
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		if got, err := Decode(changed); err == nil {
			t.Errorf("with byte %d changed: %+v", i, got)
		}
	}
	if _, err := Decode(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("an extra byte is accepted")
	}
}

// Files with a valid digest and invalid content.
func TestDecode_Invalid(t *testing.T) {
	const domain, head = "\x0f\x07cluster\x05local\x00", "\x00\x00\x00"
	tests := []struct{ name, text, want string }{
		{"another file", "#!/bin/sh\n", "is not a snapshot"},
		{"another version", magic + "\x02", "has format version 2, this program reads 1"},
		{"only a version", magic + "\x01", "unexpected end of file"},
		{"no domain", magic + "\x01\x00" + head, "invalid domain"},
		{"a domain that is cut off", magic + "\x01\x03\x07cl" + head, "invalid domain"},
		{"a domain in capitals", magic + "\x01\x04\x02CL\x00" + head, "invalid domain"},
		{"unknown flags", magic + "\x01" + domain + "\x00\x00\x02\x00\x00\x00", "unknown flags 0x2"},
		{"a namespace that is not a label", magic + "\x01" + domain + head + "\x01\x03a.b\x00\x00\x00", "must not contain dots"},
		{"a namespace that is too long", magic + "\x01" + domain + head + "\x01\x40" +
			strings.Repeat("a", 64) + "\x00\x00\x00", "no more than 63"},
		{"a string over the limit", magic + "\x01" + domain + "\xff\xff\x03\x00\x00\x00\x00\x00",
			"string of 65535 bytes: the limit is 1020"},
		{"more addresses than bytes",
			magic + "\x01" + domain + head + "\x00\x01\x01a\x01b\x00\x00\xff\xff\xff\xff\xff\x01", "unexpected end of file"},
		{"an address of 5 bytes", magic + "\x01" + domain + head + "\x00\x01\x01a\x01b\x00\x00\x01\x0512345\x00\x00\x00",
			"not 4 or 16 bytes"},
		{"a port of 17 bits",
			magic + "\x01" + domain + head + "\x00\x01\x01a\x01b\x00\x00\x00\x01\x00\x03tcp\x80\x80\x04\x00\x00", "port 65536"},
		{"a number that does not end", magic + "\x01" + domain + strings.Repeat("\xff", 40), "unexpected end of file"},
		{"bytes at the end", magic + "\x01" + domain + head + "\x00\x00\x00more", "4 extra bytes"},
	}
	for _, tt := range tests {
		if got, err := Decode(sign(tt.text)); got != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %+v, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := Decode(sign(magic + "\x01" + domain + head + "\x00\x00\x00")); err != nil {
		t.Errorf("an empty zone: %v", err)
	}
}

func TestCheckUsable_Reasons(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	file := Header{Domain: clusterLocal, Cluster: "uid-1", Time: now.Add(-time.Hour)}
	tests := []struct {
		name string
		want Header
		age  time.Duration // the greatest allowed
		err  string
	}{
		{"the same", Header{Domain: clusterLocal, Cluster: "uid-1"}, time.Hour, ""},
		{"too old by a nanosecond", Header{Domain: clusterLocal, Cluster: "uid-1"}, time.Hour - 1, "is 1h0m0s old: the limit is"},
		{"a cluster not known yet", Header{Domain: clusterLocal}, time.Hour, ""},
		{"another cluster", Header{Domain: clusterLocal, Cluster: "uid-2"}, time.Hour, "UID of kube-system is uid-1, want uid-2"},
		{"another domain", Header{Domain: fqdn.Join(fqdn.Root, "local"), Cluster: "uid-1"}, time.Hour,
			"is of the cluster domain cluster.local., want local."},
		{"pods are wanted", Header{Domain: clusterLocal, HasPods: true}, time.Hour, "has no pods"},
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
func TestRead_Errors(t *testing.T) {
	h, s, _ := small(t)
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent", "zone")
	if err := Write(absent, h, s); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), absent) {
		t.Errorf("got %v", err)
	}
	if _, err := Read(absent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), dir+" is not a regular file") {
		t.Errorf("got %v", err)
	}
	for size, want := range map[int64]string{MaxSize: "is not a snapshot", MaxSize + 1: "is larger than 268435456 bytes"} {
		large := filepath.Join(dir, "large")
		if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, size)); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(large); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}

// FuzzDecode checks that Decode returns an error or a State that a zone accepts, and that
// Encode is its inverse.
func FuzzDecode(f *testing.F) {
	h, s, _ := small(f)
	whole := encode(f, h, s)
	f.Add(string(whole[:len(whole)-sha256.Size]))
	f.Add(magic + "\x01\x0f\x07cluster\x05local\x00\x00\x00\x00\x00\x00\x00")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = Decode([]byte(text))
		state, err := Decode(sign(text))
		if err != nil {
			return
		}
		z, err := zone.New(zone.Config{Domain: state.Domain})
		if err != nil {
			return // the root
		}
		z.Update(1, func(e *zone.Edit) {
			put(state.Namespaces, e.PutNamespace)
			put(state.Services, e.PutService)
			put(state.EndpointSlices, e.PutEndpointSlice)
			put(state.Pods, e.PutPod)
			e.SetLoaded()
		})
		for svc := range z.Snapshot().Services() {
			name := fqdn.Join(state.Domain, svc.Name, svc.Namespace, "svc")
			_, _, node := z.Snapshot().Lookup(name)
			_ = node.SRV(100)
		}
		again, err := Decode(encode(t, state.Header, z.Snapshot()))
		if err != nil {
			t.Fatalf("cannot decode again: %v", err)
		}
		if again.Domain != state.Domain || len(again.Services) > len(state.Services) {
			t.Fatalf("got %+v from %+v", again, state)
		}
	})
}

// large returns a zone of 10,000 Services with 100,000 endpoints.
func large(t testing.TB) *zone.Snapshot {
	return newZone(t, func(e *zone.Edit) {
		addr := netip.MustParseAddr("10.0.0.0")
		for i := range 10_000 {
			ns, name := fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("service-%d", i)
			e.PutNamespace(ns)
			e.PutService(zone.Service{Namespace: ns, Name: name, Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}}})
			slice := zone.EndpointSlice{Namespace: ns, Name: name + "-abcde", Service: name,
				Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 8080}}}
			for range 10 {
				addr = addr.Next()
				slice.Endpoints = append(slice.Endpoints, zone.Endpoint{Addr: addr, Ready: true})
			}
			e.PutEndpointSlice(slice)
		}
		e.SetLoaded()
	})
}

func BenchmarkLarge(b *testing.B) {
	s := large(b)
	path := filepath.Join(b.TempDir(), "zone")
	if err := Write(path, Header{Domain: clusterLocal}, s); err != nil {
		b.Fatal(err)
	}
	b.Run("Write", func(b *testing.B) {
		for b.Loop() {
			if err := Write(path, Header{Domain: clusterLocal}, s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			state, err := Read(path)
			if err != nil {
				b.Fatal(err)
			}
			newZone(b, func(e *zone.Edit) {
				put(state.Namespaces, e.PutNamespace)
				put(state.Services, e.PutService)
				put(state.EndpointSlices, e.PutEndpointSlice)
				e.SetLoaded()
			})
		}
	})
}
