// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// fieldNames calls the fields of a configuration in messages: nil, as the file does;
// otherwise by flags, where there is one.
type fieldNames map[string]string

// of returns what the field at path is called. A flag stands for a whole list.
func (n fieldNames) of(path string) string {
	field, _, _ := strings.Cut(path, "[")
	if flag, ok := n[field]; ok {
		return "--" + flag
	}
	return path
}

// missing is the error about a field that has no default and that file leaves out; the
// flag gives it as well.
func missing(file, field, flag string) error {
	return fmt.Errorf("%s: %s: is missing; give it here, or as --%s", file, field, flag)
}

// readListen checks where a server takes queries.
func readListen(texts []string, standard string, check func(string, error)) (listen []netip.AddrPort) {
	if len(texts) == 0 {
		texts = []string{standard}
	}
	for i, text := range texts {
		addr, err := netip.ParseAddrPort(text)
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		path := fmt.Sprintf("listen[%d]", i)
		switch {
		case err != nil:
			check(path, fmt.Errorf("%q is not an IP address with a port", text))
		case addr.Port() != 0 && slices.Contains(listen, addr): // of port 0 each is another
			check(path, fmt.Errorf("%s is there twice", addr))
		}
		listen = append(listen, addr)
	}
	return listen
}

// readDomain checks a domain that is not the root; why says why.
func readDomain(path, text, why string, check func(string, error)) fqdn.Name {
	name, err := fqdn.ParseName(text)
	if err == nil && name == fqdn.Root {
		err = fmt.Errorf("is the root, %s", why)
	}
	if err != nil {
		check(path, fmt.Errorf("%q %w", text, err))
	}
	return name
}

// readNetworks checks networks; those with an error are in the list, too. Without any it is
// nil.
func readNetworks(path string, texts []string, check func(string, error)) (list []netip.Prefix) {
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() { // in these nobody is: clients with IPv4 are taken as such
			check(fmt.Sprintf("%s[%d]", path, i), fmt.Errorf("%q is not a network as 10.96.0.0/12", text))
		}
		list = append(list, p.Masked())
	}
	return list
}

// readAutopath checks what the two ends of a search list have to agree on: below which
// suffix names have one, and by which option it goes from the node to the cluster DNS.
func readAutopath(suffix string, option uint16, domain fqdn.Name, check func(string, error)) dnsserver.Autopath {
	a := dnsserver.Autopath{Option: cmp.Or(option, autopath.DefaultOption)}
	if a.Option < autopath.MinOption || a.Option > autopath.MaxOption {
		check("ednsOption", fmt.Errorf("%d: those for local use are %d to %d", a.Option, autopath.MinOption, autopath.MaxOption))
	}
	a.Suffix = readDomain("autopathSuffix", cmp.Or(suffix, v1alpha1.DefaultAutopathSuffix), "all names would be below it", check)
	if len(a.Suffix) > len(fqdn.Root) && len(domain) > len(fqdn.Root) { // else the one that is wrong is told of
		_, err := autopath.NewZone(a.Suffix, domain)
		check("autopathSuffix", err)
	}
	return a
}

// checkAddress checks an address of TCP, of which the host may be absent or a name.
func checkAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not an address with a port", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port is not a number of at most 65535", addr)
	}
	return nil
}

// checkServing checks what all servers have, and returns the format of the log.
func checkServing(http, logFormat string, check func(string, error)) string {
	if http != "" {
		check("http", checkAddress(http))
	}
	format := cmp.Or(logFormat, v1alpha1.DefaultLogFormat)
	if !slices.Contains([]string{"text", "json"}, format) {
		check("logFormat", fmt.Errorf("%q: want text or json", logFormat))
	}
	return format
}
