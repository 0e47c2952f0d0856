// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	netutils "k8s.io/utils/net"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// setDefault sets *text to a default if it is empty. It returns nil, for use in Field.Check.
func setDefault(text *string, defaultText string) error {
	*text = cmp.Or(*text, defaultText)
	return nil
}

// parseListen parses addresses to serve on. It sets *texts to their canonical form. Like in
// [net.Listen], an address without a host is that of all interfaces, for IPv4 and IPv6.
func parseListen(texts *[]string, defaultText string) ([]netip.AddrPort, error) {
	if len(*texts) == 0 {
		*texts = []string{defaultText}
	}
	var addrs []netip.AddrPort
	var canonical []string
	var problems []error
	for i, text := range *texts {
		if strings.HasPrefix(text, ":") {
			text = "[::]" + text
		}
		addr, err := netip.ParseAddrPort(text)
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		switch {
		case err != nil:
			problems = append(problems, itemError{i, fmt.Errorf("%q is not an IP address with a port", (*texts)[i])})
		case addr.Port() != 0 && slices.Contains(addrs, addr): // for port 0 the kernel selects a free one
			problems = append(problems, itemError{i, fmt.Errorf("duplicate address %s", addr)})
		}
		addrs, canonical = append(addrs, addr), append(canonical, addr.String())
	}
	if problems == nil {
		*texts = canonical
	}
	return addrs, errors.Join(problems...)
}

// parseDomain parses a domain other than the root; rootProblem is the reason in the error
// about the root. It sets *text to its canonical form.
func parseDomain(text *string, defaultText, rootProblem string) (fqdn.Name, error) {
	*text = cmp.Or(*text, defaultText)
	name, err := fqdn.ParseName(*text)
	if err == nil && name == fqdn.Root {
		err = fmt.Errorf("is the root: %s", rootProblem)
	}
	if err != nil {
		return name, fmt.Errorf("%q %w", *text, err)
	}
	*text = strings.TrimSuffix(name.String(), ".")
	return name, nil
}

func parseClusterDomain(text *string) (fqdn.Name, error) {
	given := *text
	name, err := parseDomain(text, v1alpha1.DefaultClusterDomain, "want a domain such as "+v1alpha1.DefaultClusterDomain)
	// The DNS has names of any octets, but no client could send those of this cluster.
	if err == nil && strings.ContainsFunc(given, func(r rune) bool { return !isHostRune(r) }) {
		err = fmt.Errorf("%q: want a domain such as %s", given, v1alpha1.DefaultClusterDomain)
	}
	return name, err
}

// isHostRune reports whether r occurs in domains of hosts. Clusters have underscores in theirs.
func isHostRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r)
}

// parseNetworks parses networks. It returns nil for an empty list.
func parseNetworks(texts []string) (list []netip.Prefix, _ error) {
	var problems []error
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() { // would match no client: their addresses are unmapped
			problems = append(problems, itemError{i, fmt.Errorf("%q is not a network such as 10.96.0.0/12", text)})
		}
		list = append(list, p.Masked())
	}
	return list, errors.Join(problems...)
}

// loopback returns the networks of the loopback interface.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// parseService parses the name of a Service, NAMESPACE/NAME. It sets *text to the default if it
// is empty.
func parseService(text *string, defaultText string) (dnsserver.Service, error) {
	*text = cmp.Or(*text, defaultText)
	namespace, name, _ := strings.Cut(*text, "/")
	for _, label := range []string{namespace, name} {
		if problems := fqdn.LabelProblems(label); problems != nil {
			return dnsserver.Service{}, fmt.Errorf("%q is not the NAMESPACE/NAME of a Service", *text)
		}
	}
	return dnsserver.Service{Namespace: namespace, Name: name}, nil
}

// parseOption parses the code of the EDNS0 option for search lists.
func parseOption(code *uint16) (uint16, error) {
	*code = cmp.Or(*code, v1alpha1.DefaultEDNSOption)
	if *code < autopath.MinOption || *code > autopath.MaxOption {
		return *code, fmt.Errorf("%d: want %d to %d, the codes for local use", *code, autopath.MinOption, autopath.MaxOption)
	}
	return *code, nil
}

// parseAutopathSuffix parses the autopath domain. The domain of the cluster must not be
// below it.
func parseAutopathSuffix(text *string, cluster fqdn.Name) (fqdn.Name, error) {
	suffix, err := parseDomain(text, v1alpha1.DefaultAutopathSuffix, "all names are below it")
	if err == nil && len(cluster) > len(fqdn.Root) { // otherwise the cluster domain is invalid, which is reported at its field
		_, err = autopath.NewZone(suffix, cluster)
	}
	return suffix, err
}

// parseDuration parses a duration of at least 0. It sets *text to the default if it is
// empty.
func parseDuration(text *string, defaultText string) (time.Duration, error) {
	*text = cmp.Or(*text, defaultText)
	d, err := time.ParseDuration(*text)
	if err != nil || d < 0 {
		return d, fmt.Errorf("%q is not a duration such as 10s", *text)
	}
	return d, nil
}

// parsePositiveDuration is parseDuration, but 0 is an error.
func parsePositiveDuration(text *string, defaultText string) (time.Duration, error) {
	d, err := parseDuration(text, defaultText)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q: want a duration of more than 0", *text)
	}
	return d, err
}

// checkAddrs checks IP addresses without a port.
func checkAddrs(texts []string) error {
	var problems []error
	for i, text := range texts {
		if _, ok := ParseAddr(text); !ok {
			problems = append(problems, itemError{i, fmt.Errorf("%q is not an IP address", text)})
		}
	}
	return errors.Join(problems...)
}

// ParseAddr parses an address as the kubelet does: leading zeros are allowed, zones are
// not. An IPv4-mapped IPv6 address is unmapped.
func ParseAddr(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}
