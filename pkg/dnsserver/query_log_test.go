// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// logged is what a query log has written.
type logged struct {
	mu    sync.Mutex
	lines string
}

func (l *logged) write(lines []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines += string(lines)
}

// take returns the lines since the last call.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = ""
	return lines
}

// TestQueryLog_Formats: the lines of replies that are sent 40 microseconds after the query has arrived.
func TestQueryLog_Formats(t *testing.T) {
	question := func(name string, qtype uint16) *dns.Msg {
		m := new(dns.Msg).SetQuestion(name, qtype)
		m.Id = 7
		return m
	}
	chaos := question("version.bind.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	malformed := question("a.example.", dns.TypeA)
	malformed.Question = append(malformed.Question, malformed.Question[0])
	tests := []struct {
		name   string
		query  *dns.Msg
		via    transport
		client string
		reply  reply
		text   string
		json   string
	}{
		{"an answer", question("Db.Shop.svc.cluster.local.", dns.TypeA), overUDP, "10.244.1.7:38012",
			reply{wire: []byte{0, 7, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, source: fromZone},
			`10.244.1.7:38012 - 7 "A IN db.shop.svc.cluster.local. udp 43 false 512" NOERROR qr,aa,rd,ra 12 0.000040000s zone`,
			`"client":"10.244.1.7","port":38012,"id":7,"type":"A","class":"IN",` +
				`"name":"db.shop.svc.cluster.local.","protocol":"udp","size":43,"do":false,"bufsize":512,` +
				`"rcode":"NOERROR","flags":"qr,aa,rd,ra","replySize":12,"seconds":0.000040000,"source":"zone"`},
		{"over TCP, IPv6, DNSSEC", question(".", 65280).SetEdns0(4096, true), overTCP, "[2001:db8::7]:53",
			reply{wire: []byte{0, 7, 0x83, 0xb3, 0, 1, 0, 0, 0, 0, 0, 0}, source: fromUpstream, rcode: dns.RcodeNameError},
			`[2001:db8::7]:53 - 7 "TYPE65280 IN . tcp 28 true 65535" NXDOMAIN qr,tc,rd,ra,ad,cd 12 0.000040000s upstream`,
			`"client":"2001:db8::7","port":53,"id":7,"type":"TYPE65280","class":"IN","name":".","protocol":"tcp",` +
				`"size":28,"do":true,"bufsize":65535,"rcode":"NXDOMAIN","flags":"qr,tc,rd,ra,ad,cd","replySize":12,"seconds":0.000040000,` +
				`"source":"upstream"`},
		{"another class", chaos, overUDP, "192.0.2.1:1",
			reply{wire: []byte{0, 7, 0x80, 5, 0, 1, 0, 0, 0, 0, 0, 0}, rcode: dns.RcodeRefused},
			`192.0.2.1:1 - 7 "TXT CH version.bind. udp 30 false 512" REFUSED qr 12 0.000040000s server`,
			`"client":"192.0.2.1","port":1,"id":7,"type":"TXT","class":"CH","name":"version.bind.","protocol":"udp",` +
				`"size":30,"do":false,"bufsize":512,"rcode":"REFUSED","flags":"qr","replySize":12,"seconds":0.000040000,"source":"server"`},
		{"a malformed question, an unknown rcode", malformed, overUDP, "192.0.2.1:1",
			reply{wire: []byte{0, 7, 0x80, 12, 0, 0, 0, 0, 0, 0, 0, 0}, rcode: 12},
			`192.0.2.1:1 - 7 "None CLASS0 - udp 42 false 512" RCODE12 qr 12 0.000040000s server`,
			`"client":"192.0.2.1","port":1,"id":7,"type":"None","class":"CLASS0","name":"-","protocol":"udp",` +
				`"size":42,"do":false,"bufsize":512,"rcode":"RCODE12","flags":"qr","replySize":12,"seconds":0.000040000,"source":"server"`},
		{"a name that looks like a line", question(`a\010\"\032\\é<\127\000b\.c.example.`, dns.TypeA), overUDP, "192.0.2.1:1",
			reply{wire: make([]byte, headerLen), source: fromCache},
			`192.0.2.1:1 - 7 "A IN a\010\034\032\092\195\169<\127\000b\046c.example. udp 39 false 512" NOERROR qr 12 0.000040000s cache`,
			`"client":"192.0.2.1","port":1,"id":7,"type":"A","class":"IN",` +
				`"name":"a\\010\\034\\032\\092\\195\\169<\\127\\000b\\046c.example.","protocol":"udp",` +
				`"size":39,"do":false,"bufsize":512,"rcode":"NOERROR","flags":"qr","replySize":12,"seconds":0.000040000,"source":"cache"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := netip.MustParseAddrPort(tt.client)
				q := &query{via: tt.via, client: client.Addr(), port: client.Port(), received: time.Now()}
				q.parse(mustPack(t, tt.query))
				time.Sleep(40 * time.Microsecond)
				for want, l := range map[string]QueryLog{
					"2000-01-01T00:00:00.000000Z " + tt.text + "\n":            {Classes: LogAll},
					`{"time":"2000-01-01T00:00:00.000000Z",` + tt.json + "}\n": {Classes: LogAll, JSON: true},
				} {
					if got := string(l.append(nil, q, &tt.reply)); got != want {
						t.Errorf("got  %swant %s", got, want)
					}
				}
			})
		})
	}
}

// TestQueryLog_Selection: a query is logged if both its reply and its name are selected.
func TestQueryLog_Selection(t *testing.T) {
	replies := map[string]*reply{
		"answer":    {wire: []byte{0, 0, 0x80, 0, 0, 1, 0, 1, 0, 0, 0, 0}},
		"truncated": {wire: []byte{0, 0, 0x82, 0, 0, 1, 0, 0, 0, 0, 0, 0}},
		"NODATA":    {wire: []byte{0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}},
		"NXDOMAIN":  {wire: make([]byte, headerLen), rcode: dns.RcodeNameError},
		"SERVFAIL":  {wire: make([]byte, headerLen), rcode: dns.RcodeServerFailure},
	}
	zones := []fqdn.Name{fqdn.Join(fqdn.Root, "example"), fqdn.Join(fqdn.Root, "corp", "test")}
	for _, tt := range []struct {
		log  QueryLog
		name string
		want string
	}{
		{QueryLog{}, "a.example.", ""},
		{QueryLog{Classes: LogAll}, "a.example.", "answer truncated NODATA NXDOMAIN SERVFAIL"},
		{QueryLog{Classes: LogSuccess}, "a.example.", "answer truncated"},
		{QueryLog{Classes: LogDenial}, "a.example.", "NODATA NXDOMAIN"},
		{QueryLog{Classes: LogError}, "a.example.", "SERVFAIL"},
		{QueryLog{Classes: LogError | LogSuccess, Zones: zones}, "A.Corp.Test.", "answer truncated SERVFAIL"},
		{QueryLog{Classes: LogAll, Zones: zones}, "xexample.", ""},
	} {
		q := &query{}
		q.parse(mustPack(t, new(dns.Msg).SetQuestion(tt.name, dns.TypeA)))
		for kind, r := range replies {
			want := strings.Contains(tt.want, kind)
			if got := len(tt.log.append(nil, q, r)) > 0; got != want {
				t.Errorf("%+v: %s, %s: logged %t, want %t", tt.log, tt.name, kind, got, want)
			}
		}
	}
}

// TestServer_QueryLog: each reply is logged once, over both transports, from each source, until the log is replaced.
func TestServer_QueryLog(t *testing.T) {
	s := startServer(t, "namespace shop\nservice shop/web 10.96.0.7\nloaded", Config{
		Upstream:    parseRecords(t, "udp.example. 100 A 192.0.2.1\ntcp.example. 100 A 192.0.2.1").exchange,
		AnswerProbe: func(string) dns.RR { return &dns.HINFO{Hdr: header("probe.", dns.TypeHINFO, 0)} },
	})
	for _, network := range []string{"udp", "tcp"} {
		var l logged
		s.SetQueryLog(&QueryLog{Classes: LogAll, Write: l.write})
		s.exchange(t, network, parseQuery("probe. HINFO", false)) // several a second
		for _, tt := range []struct{ question, want string }{
			{"web.shop.svc.cluster.local. A", "\"A IN web.shop.svc.cluster.local. %s 44 false %s\" NOERROR qr,aa,rd,ra 60 zone"},
			{network + ".example. A", "\"A IN " + network + ".example. %s 29 false %s\" NOERROR qr,rd,ra 45 upstream"},
			{network + ".example. A", "\"A IN " + network + ".example. %s 29 false %s\" NOERROR qr,rd,ra 45 cache"},
			{"no." + network + ".example. A", "\"A IN no." + network + ".example. %s 32 false %s\" NXDOMAIN qr,rd,ra 77 upstream"},
		} {
			s.exchange(t, network, parseQuery(tt.question, false))
			var line string
			poll.Until(t, "a line", func() bool {
				line = l.take()
				return line != ""
			})
			fields := strings.Fields(line) // without time, client, ID and duration
			got := strings.Join(append(fields[4:len(fields)-2], fields[len(fields)-1]), " ")
			if want := fmt.Sprintf(tt.want, network, map[string]string{"udp": "512", "tcp": "65535"}[network]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if client, err := netip.ParseAddrPort(fields[1]); err != nil || client.Port() == 0 || !client.Addr().IsLoopback() {
				t.Errorf("the client is %s", fields[1])
			}
		}
		s.SetQueryLog(nil)
		s.exchange(t, network, parseQuery("web.shop.svc.cluster.local. A", false))
		if line := l.take(); line != "" {
			t.Errorf("without a log: %s", line)
		}
	}
}

// FuzzQueryLog: a packet has one line, which has the name in a form that can be read back.
func FuzzQueryLog(f *testing.F) {
	f.Add(mustPack(f, new(dns.Msg).SetQuestion(`a\010\"\032.example.`, dns.TypeA)))
	f.Fuzz(func(t *testing.T, packet []byte) {
		q, r := &query{}, &reply{wire: make([]byte, headerLen)}
		if !q.parse(packet) || q.qtype == dns.TypeHINFO {
			return
		}
		text := string((&QueryLog{Classes: LogAll}).append(nil, q, r))
		if strings.Count(text, "\n") != 1 || strings.Count(text, `"`) != 2 || len(strings.Fields(text)) != 15 {
			t.Errorf("%q", text)
		}
		var line struct{ Name string }
		must.Succeed(t, json.Unmarshal((&QueryLog{Classes: LogAll, JSON: true}).append(nil, q, r), &line))
		if name, err := fqdn.ParseName(line.Name); q.name != "" && (err != nil || name != q.name) {
			t.Errorf("%q: %v, want %q", line.Name, err, string(q.name))
		}
	})
}
