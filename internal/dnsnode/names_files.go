// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// hosts is a validated HostsConfiguration. The zero value has no names.
type hosts struct {
	entries []string
	file    string
	ttl     uint32
}

// fileInterval is how often files of hosts and zones are read. CoreDNS reads hosts as often.
const fileInterval = 5 * time.Second

// readFile returns the text of a file; "": there is none.
func readFile(path string) (text string, err error) {
	if path == "" {
		return "", nil
	}
	b, err := atomicfile.ReadRegular(path, config.MaxFile)
	return string(b), err
}

// parse returns the names of the entries and of the file, whose invalid lines it logs and skips.
func (h hosts) parse(text string, err error, log *slog.Logger) *dnsserver.Hosts {
	parsed := &dnsserver.Hosts{TTL: h.ttl}
	for _, entry := range h.entries {
		_ = parsed.AddLine(entry) // it is validated
	}
	if err := errors.Join(err, parsed.Add(text)); err != nil {
		log.Warn("cannot use all of the hosts file", "file", h.file, "error", excerpt.Text(err.Error(), maxHostsError))
	}
	return parsed
}

// maxHostsError bounds the errors of a hosts file in the log, in characters.
const maxHostsError = 500

// watchFile calls set with the text of a file when it changes, until ctx ends. While a file cannot be read, the
// previous text counts.
func watchFile(ctx context.Context, path, text string, set func(text string), log *slog.Logger) error {
	if path == "" {
		return nil
	}
	tick := time.NewTicker(fileInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		next, err := readFile(path)
		if err != nil || next == text {
			continue
		}
		text = next
		set(text)
		log.Info("changed file applied", "file", path)
	}
}

// A zoneFile answers queries for the names of a zone from a file.
type zoneFile struct {
	origin  fqdn.Name
	path    string
	text    string                      // of the file, when the server was configured
	records atomic.Pointer[zoneRecords] // nil: the file was not valid yet
	log     *slog.Logger
}

// zoneRecords are the records of a zone by name. A name between others may have none (RFC 4592 section 2.2.2).
type zoneRecords map[fqdn.Name][]dns.RR

// maxZoneNames bounds the names of a zone file, which has at most 4 MiB, but may generate names.
const maxZoneNames = 500_000

// newZoneFile reads the file at path. If it is not valid, the zone keeps the records of the previous configuration.
func (s *server) newZoneFile(origin fqdn.Name, path string) *zoneFile {
	z := &zoneFile{origin: origin, path: path, log: s.log}
	if s.forwarder != nil {
		for _, previous := range s.forwarder.zones {
			if previous.origin == origin && previous.path == path {
				z.records.Store(previous.records.Load())
			}
		}
	}
	text, err := readFile(path)
	if z.text = text; err != nil {
		z.log.Warn("cannot read the zone file", "file", path, "zone", origin.String(), "error", err)
		return z
	}
	z.load(text)
	return z
}

// load replaces the records. A text that is not valid is logged, and the previous records remain.
func (z *zoneFile) load(text string) {
	records, err := parseZone(text, z.origin)
	if err != nil {
		z.log.Warn("invalid zone file", "file", z.path, "zone", z.origin.String(), "error", excerpt.Text(err.Error(), maxHostsError))
		return
	}
	z.records.Store(&records)
}

// parseZone parses a zone in the format of RFC 1035 section 5, without $INCLUDE. As CoreDNS's plugin file it ignores
// records outside of the zone.
func parseZone(text string, origin fqdn.Name) (zoneRecords, error) {
	z := zoneRecords{}
	p := dns.NewZoneParser(strings.NewReader(text), origin.String(), "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		name, err := fqdn.ParseName(rr.Header().Name)
		if err != nil {
			return nil, fmt.Errorf("%.260q %w", rr.Header().Name, err)
		}
		if _, ok := name.Within(origin); !ok {
			continue
		}
		if rr.Header().Rrtype == dns.TypeDNAME || rr.Header().Class != dns.ClassINET {
			return nil, fmt.Errorf("%.260q: DNAME records, and other classes than IN, are not supported", rr.Header().Name)
		}
		z[name] = append(z[name], rr)
		for name != origin {
			_, name = name.Cut()
			z[name] = append(z[name], nil...)
		}
		if len(z) > maxZoneNames {
			return nil, fmt.Errorf("more than %d names", maxZoneNames)
		}
	}
	if len(z.find(origin, dns.TypeSOA)) == 0 && p.Err() == nil {
		return nil, errors.New("no SOA record of the zone")
	}
	return z, p.Err()
}

func (z zoneRecords) find(name fqdn.Name, rrtype uint16) (found []dns.RR) {
	for _, rr := range z[name] {
		if rr.Header().Rrtype == rrtype {
			found = append(found, rr)
		}
	}
	return found
}

// exchange answers a query as a server of the zone does. It does not resolve the target of a CNAME record.
func (z *zoneFile) exchange(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
	reply, records := new(dns.Msg).SetReply(query), z.records.Load()
	name, err := fqdn.ParseName(query.Question[0].Name)
	if err != nil || records == nil {
		return reply.SetRcode(query, dns.RcodeServerFailure), err
	}
	records.answer(reply, name, z.origin)
	return reply, nil
}

// answer sets the answer to the question of a reply, for a name in the zone (RFC 1034 section 4.3.2).
func (z zoneRecords) answer(reply *dns.Msg, name, origin fqdn.Name) {
	qtype, closest := reply.Question[0].Qtype, name // the longest name that exists
	for exists := false; !exists; {
		if _, exists = z[closest]; !exists {
			_, closest = closest.Cut()
		}
	}
	for parent := closest; parent != origin; _, parent = parent.Cut() {
		if servers := z.find(parent, dns.TypeNS); len(servers) > 0 && (parent != name || qtype != dns.TypeDS) {
			reply.Ns = servers // a delegation; the shortest one counts
		}
	}
	if reply.Authoritative = len(reply.Ns) == 0; !reply.Authoritative {
		return
	}
	source := closest
	if closest != name {
		source = "\x01*" + closest
	}
	if _, exists := z[source]; !exists {
		reply.Rcode = dns.RcodeNameError
	}
	reply.Answer = z.find(source, dns.TypeCNAME)
	if len(reply.Answer) == 0 || qtype == dns.TypeCNAME {
		reply.Answer = z.find(source, qtype)
	}
	if len(reply.Answer) == 0 {
		reply.Ns = z.find(origin, dns.TypeSOA)
	}
	for i, rr := range slices.Clone(reply.Answer) {
		reply.Answer[i] = dns.Copy(rr)
		reply.Answer[i].Header().Name = reply.Question[0].Name
	}
}

// pinnedNames is a validated PinnedNamesConfiguration.
type pinnedNames struct {
	names []fqdn.Name
	file  string
}

// pinnedTTL is the TTL in seconds of the records of pinned names, and the time between two lookups.
const pinnedTTL = 30

// A pinner looks up pinned names, and keeps their addresses while no server answers.
type pinner struct {
	pinnedNames
	exchange dnsserver.Exchange
	serve    func(*dnsserver.Hosts)
	served   *atomic.Pointer[string] // what was served last, also with the previous configuration
	log      *slog.Logger

	lines map[fqdn.Name]string // addresses in the format of hosts(5)
}

// load serves the addresses that were served before, or those in the file at a start.
func (p *pinner) load() {
	var text string
	if before := p.served.Load(); before != nil {
		text = *before
	} else if read, err := readFile(p.file); err == nil {
		text = read
	} else if !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("cannot read the addresses of pinned names, looking them up", "file", p.file, "error", err)
	}
	p.lines = map[fqdn.Name]string{}
	for line := range strings.Lines(text) {
		for _, name := range p.names {
			if strings.HasSuffix(line, " "+name.String()+"\n") {
				p.lines[name] += line
			}
		}
	}
	p.publish()
}

// publish serves all addresses, and returns them.
func (p *pinner) publish() (text string) {
	text = strings.Join(slices.Sorted(maps.Values(p.lines)), "")
	served := &dnsserver.Hosts{TTL: pinnedTTL, AddressesOnly: true}
	_ = served.Add(text) // invalid lines of a damaged file are skipped
	p.serve(served)
	p.served.Store(&text)
	return text
}

// run looks up the names until ctx ends, and writes the file when an address has changed.
func (p *pinner) run(ctx context.Context) error {
	for ctx.Err() == nil && len(p.names) > 0 {
		before := maps.Clone(p.lines)
		for _, name := range p.names {
			addrs, err := lookupAddrs(ctx, p.exchange, name)
			if err != nil {
				continue
			}
			slices.SortFunc(addrs, netip.Addr.Compare) // servers rotate them
			p.lines[name] = ""
			for _, addr := range addrs {
				p.lines[name] += addr.String() + " " + name.String() + "\n"
			}
		}
		if !maps.Equal(p.lines, before) {
			p.write(p.publish())
		}
		daemon.Sleep(ctx, pinnedTTL*time.Second)
	}
	return nil
}

func (p *pinner) write(text string) {
	if p.file == "" {
		return
	}
	if err := atomicfile.WriteText(p.file, 0o600, text); err != nil {
		p.log.Warn("cannot keep the addresses of pinned names for the next start", "file", p.file, "error", err)
	}
}
