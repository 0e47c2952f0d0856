// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestQueryLog: the log is on standard output, and a reload changes what is logged. If that is a pipe that nothing reads
// any more, or whose other end is closed, the server answers, counts the lines that it drops, and ends in time.
func TestQueryLog(t *testing.T) {
	for _, isClosed := range []bool{false, true} {
		p := &dnsProcess{t: t, config: filepath.Join(t.TempDir(), "dns.yaml"), addr: freeAddr(t), http: freeAddr(t)}
		fields := "queryLog: {classes: [%s], zones: [cluster.local]}\nlogFormat: json\nresolvConf: ''\n"
		p.write(fmt.Sprintf(fields, "error"))
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command := newCommand(t, []string{"dns", "--config", p.config, "--listen", p.addr, "--http", p.http,
			"--manifests", "../../examples"}, &p.log)
		command.Stdout = w
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = command.Process.Kill() })
		p.signal = command.Process.Signal
		w.Close()
		defer r.Close()
		p.ready()
		p.says("www.example.", dns.TypeA, "REFUSED") // outside of the zones
		p.says("payments.shop.svc.cluster.local.", dns.TypeTXT, "NOERROR")
		p.hangup(fmt.Sprintf(fields, "all"), "configuration applied")
		p.says("payments.shop.svc.cluster.local.", dns.TypeA, "10.96.20.7")
		line, err := bufio.NewReader(r).ReadString('\n')
		if want := `"type":"A","class":"IN","name":"payments.shop.svc.cluster.local.","protocol":"udp"`; !strings.Contains(line, want) {
			t.Errorf("%q: %v", line, err)
		}
		if isClosed {
			r.Close()
		}
		// A line of this name has a kilobyte: 3 MiB are more than wait, are being written, and are in the pipe.
		label := strings.Repeat(`\000`, 60)
		for range 3 << 10 {
			p.ask(label+"."+label+"."+label+".cluster.local.", dns.TypeA)
		}
		p.eventually("dropped lines", func() bool {
			return !strings.Contains(p.get("/metrics"), "\ndnsconfigurer_dns_query_log_dropped_total 0\n")
		})
		start := time.Now()
		if err := p.signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("closed: %t: %v after %v\n%s", isClosed, err, time.Since(start), p.log.String())
		}
	}
}
