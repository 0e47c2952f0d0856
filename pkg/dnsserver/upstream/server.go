// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Ports where none is given (RFC 1035 section 4.2, RFC 7858 section 3.1).
const (
	portDNS = 53
	portTLS = 853
)

const (
	schemeTLS = "tls://"
	schemeTCP = "tcp://"
)

// Server is an upstream server and how it is reached. The zero value is none.
type Server struct {
	Addr netip.AddrPort
	TCP  bool   // TCP alone (RFC 7766); else UDP, and TCP for what is too long for it
	TLS  bool   // DNS over TLS (RFC 7858); goes without TCP
	Name string // who the certificate must be for; empty: for the address
}

// String returns the server as [ParseServer] reads it.
func (s Server) String() string {
	text := s.Addr.String()
	switch {
	case s.TLS && s.Name != "":
		return schemeTLS + text + "#" + s.Name
	case s.TLS:
		return schemeTLS + text
	case s.TCP:
		return schemeTCP + text
	default:
		return text
	}
}

// MarshalText returns what String does, for logs.
func (s Server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseServer reads ADDR, ADDR:PORT or [ADDR]:PORT, with "tcp://" before it for TCP alone,
// for DNS over TLS with "tls://" before it and, if the certificate is not for the address,
// "#NAME" after it.
func ParseServer(spec string) (Server, error) {
	s, err := parseServer(spec)
	if err != nil {
		return Server{}, fmt.Errorf("upstream server %q: %w", spec, err)
	}
	return s, nil
}

func parseServer(spec string) (Server, error) {
	var s Server
	rest, port := spec, uint16(portDNS)
	if before, after, ok := strings.Cut(spec, "://"); ok {
		switch rest = after; before + "://" {
		case schemeTLS:
			s.TLS, port = true, portTLS
		case schemeTCP:
			s.TCP = true
		default:
			return Server{}, fmt.Errorf("%q is not spoken; write an address for DNS, %sADDRESS for DNS over TCP alone, %sADDRESS for DNS over TLS", before, schemeTCP, schemeTLS)
		}
	}
	address, name, named := strings.Cut(rest, "#")
	switch {
	case named && !s.TLS:
		return Server{}, fmt.Errorf("a name after # goes with %s", schemeTLS)
	case named:
		if problems := fqdn.SubdomainProblems(strings.ToLower(name)); problems != nil {
			return Server{}, fmt.Errorf("the name %q: %s", name, problems[0])
		}
		s.Name = strings.ToLower(name)
	}
	var err error
	s.Addr, err = parseAddress(address, port)
	return s, err
}

// parseAddress reads an address with a port or without.
func parseAddress(text string, port uint16) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		host, digits, ok := cutPort(text)
		if !ok {
			return netip.AddrPort{}, errors.New("is not an IP address with or without port; an IPv6 address with a port stands in brackets")
		}
		if addr, err = netip.ParseAddr(host); err != nil {
			return netip.AddrPort{}, fmt.Errorf("%q is not an IP address", host)
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 || digits != strconv.FormatUint(n, 10) {
			return netip.AddrPort{}, fmt.Errorf("%q is not a port, 1 to 65535", digits)
		}
		port = uint16(n)
	}
	switch {
	case addr.Is4In6():
		return netip.AddrPort{}, fmt.Errorf("write the IPv4 address as %s", addr.Unmap())
	case addr.IsUnspecified(), addr.IsMulticast():
		return netip.AddrPort{}, fmt.Errorf("%s is not the address of a server", addr)
	}
	return netip.AddrPortFrom(addr, port), nil
}

// cutPort cuts a text at the colon before the port. Brackets are for IPv6 addresses
// only, and these need them.
func cutPort(text string) (host, port string, ok bool) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return "", "", false
	}
	host, port = text[:at], text[at+1:]
	inner, open := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if open != closed || open != strings.Contains(host, ":") {
		return "", "", false
	}
	return inner, port, true
}
