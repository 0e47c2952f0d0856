// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	netutils "k8s.io/utils/net"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// formats check a text by the tag format of its field, and return it in its canonical form. least and
// most are the tags min and max.
var formats = map[string]func(text, least, most string) (string, error){
	"address": func(text, _, _ string) (string, error) { return text, daemon.CheckAddress(text) },
	"directory": accept(" is not an absolute path below /", func(text string) bool {
		return filepath.IsAbs(text) && filepath.Clean(text) != "/"
	}),
	"domain":   checkDomain,
	"duration": checkDuration,
	"host":     checkHost,
	// A name has IFNAMSIZ octets, with the final NUL.
	"interface": accept(" is not the name of a network interface: want at most 15 octets without blanks and /", func(text string) bool {
		invalid := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/:%", r) }
		return len(text) <= 15 && text != "." && text != ".." && !strings.ContainsFunc(text, invalid)
	}),
	"ip": accept(" is not an IP address", func(text string) bool {
		_, ok := ParseAddr(text)
		return ok
	}),
	"listen": checkListen,
	"memory": checkMemory,
	"network": accept(" is not a network such as 10.96.0.0/12", func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && !p.Addr().Is4In6() // would match no client: their addresses are unmapped
	}),
	"path": accept(": want never, auto or a path with a /", func(text string) bool { return strings.Contains(text, "/") }),
	"service": accept(" is not the NAMESPACE/NAME of a Service", func(text string) bool {
		namespace, name, _ := strings.Cut(text, "/")
		return fqdn.LabelProblems(namespace) == nil && fqdn.LabelProblems(name) == nil
	}),
	"socket": checkSocket,
}

// accept returns the format of texts that have one form. problem follows an invalid text in its error.
func accept(problem string, valid func(text string) bool) func(text, least, most string) (string, error) {
	return func(text, _, _ string) (string, error) {
		if !valid(text) {
			return text, fmt.Errorf("%q%s", text, problem)
		}
		return text, nil
	}
}

// checkDomain accepts a domain other than the root.
func checkDomain(text, _, _ string) (string, error) {
	name, err := fqdn.ParseName(text)
	if err == nil && name == fqdn.Root {
		err = fmt.Errorf("is the root: want a domain such as cluster.local")
	}
	if err != nil {
		return text, fmt.Errorf("%q %w", text, err)
	}
	return strings.TrimSuffix(name.String(), "."), nil
}

// checkHost accepts a domain of hosts. The DNS has names of any octets, but no client could send those of
// a cluster. Clusters have underscores in theirs.
func checkHost(text, _, _ string) (string, error) {
	valid := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !valid(r) }) {
		return text, fmt.Errorf("%q: want a domain such as cluster.local", text)
	}
	return checkDomain(text, "", "")
}

// checkListen accepts an address with a port. Like in [net.Listen], an address without a host is that of
// all interfaces, for IPv4 and IPv6.
func checkListen(text, _, _ string) (string, error) {
	full := text
	if strings.HasPrefix(text, ":") {
		full = "[::]" + text
	}
	addr, err := netip.ParseAddrPort(full)
	if err != nil {
		return text, fmt.Errorf("%q is not an IP address with a port", text)
	}
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()).String(), nil
}

// checkDuration accepts a duration of at least 0.
func checkDuration(text, least, most string) (string, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return text, fmt.Errorf("%q is not a duration such as 10s", text)
	}
	if most != "" && (d < Duration(least) || d > Duration(most)) {
		return text, fmt.Errorf("%q: want %s to %s", text, least, most)
	}
	return text, nil
}

func checkMemory(text, least, most string) (string, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return text, fmt.Errorf("%q is not an amount of memory such as 64Mi", text)
	}
	if q.Cmp(resource.MustParse(least)) < 0 || q.Cmp(resource.MustParse(most)) > 0 {
		return text, fmt.Errorf("%q: want %s to %s", text, least, most)
	}
	return text, nil
}

// maxSocketPath is the longest path of a unix socket in octets: sun_path without the final NUL
// (unix(7)).
const maxSocketPath = 107

// checkSocket accepts a unix socket: an absolute path with or without the scheme unix, as the
// kubelet accepts it. Its canonical form is unix://PATH.
func checkSocket(text, _, _ string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(text, "unix:"), "//")
	switch {
	case !filepath.IsAbs(path):
		return text, fmt.Errorf("%q is not a unix socket: want an absolute path or unix:///PATH", text)
	case len(path) > maxSocketPath:
		return text, fmt.Errorf("%q: the path has %d octets, a unix socket can have %d", text, len(path), maxSocketPath)
	}
	return "unix://" + path, nil
}

// The values of texts in a validated configuration.

// SocketPath returns the path of a socket.
func SocketPath(endpoint string) string { return strings.TrimPrefix(endpoint, "unix://") }

// Duration returns the value of a duration.
func Duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// AddrPorts returns the values of addresses to listen on.
func AddrPorts(texts []string) []netip.AddrPort { return parseAll(texts, netip.ParseAddrPort) }

// Networks returns the values of networks.
func Networks(texts []string) []netip.Prefix {
	return parseAll(texts, func(text string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err
	})
}

// Names returns the values of domains.
func Names(texts []string) []fqdn.Name { return parseAll(texts, fqdn.ParseName) }

// parseAll returns the values of texts. Invalid texts are skipped.
func parseAll[T any](texts []string, parse func(string) (T, error)) (list []T) {
	for _, text := range texts {
		if v, err := parse(text); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// ParseAddr parses an address as the kubelet does: leading zeros are allowed, zones are
// not. An IPv4-mapped IPv6 address is unmapped.
func ParseAddr(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}
