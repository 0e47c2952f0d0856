// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// TestFollowHost has a host file whose servers are there before the first query, and
// whose changes are told when they are about servers.
func TestFollowHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("nameserver 192.0.2.1\nnameserver 192.0.2.1%lo\n")
	var log lockedBuffer
	used := make(chan bool, 1)
	f, err := newForwarding(dnsSettings{resolvConf: path}, upstream.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(dnsserver.Forwarding) { used <- true })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		var servers []upstream.Server
		for _, s := range f.clients[0].Status() {
			servers = append(servers, s.Server)
		}
		if got := fmt.Sprint(servers); got != want {
			t.Errorf("%s are asked, want %s\n%s", got, want, log.String())
		}
	}
	expect("[192.0.2.1:53]")
	stop := f.start(t.Context())
	defer stop()
	write("nameserver 192.0.2.1\nsearch other.example\n")
	write("nameserver 192.0.2.2\nnameserver 192.0.2.1\n")
	<-used
	expect("[192.0.2.2:53 192.0.2.1:53]")
	stop()
	select {
	case <-used:
		t.Error("told of a change that was none")
	default:
	}
}
