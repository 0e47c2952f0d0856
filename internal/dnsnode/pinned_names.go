// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

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
