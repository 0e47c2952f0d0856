// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
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
		if err != nil {
			check(fmt.Sprintf("listen[%d]", i), fmt.Errorf("%q is not an IP address with a port", text))
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

// checkServing checks what all servers have, and returns the format of the log.
func checkServing(http, logFormat string, check func(string, error)) string {
	if http != "" {
		if _, _, err := net.SplitHostPort(http); err != nil {
			check("http", fmt.Errorf("%q is not an address with a port", http))
		}
	}
	format := cmp.Or(logFormat, v1alpha1.DefaultLogFormat)
	if !slices.Contains([]string{"text", "json"}, format) {
		check("logFormat", fmt.Errorf("%q: want text or json", logFormat))
	}
	return format
}
