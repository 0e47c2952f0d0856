// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"slices"
	"strings"
)

// Config holds the values of a resolv.conf, each list in the order of the file. The zero
// value is an empty file. Values are not validated: a nameserver may have a zone, a domain
// may have any length.
type Config struct {
	Nameservers []string // addresses
	Searches    []string // domains
	Options     []string // "name" or "name:value"
}

// Equal reports whether c and d have the same values. The order of options is ignored,
// because the kubelet writes them in random order.
func (c Config) Equal(d Config) bool {
	return slices.Equal(c.Nameservers, d.Nameservers) &&
		slices.Equal(c.Searches, d.Searches) &&
		slices.Equal(slices.Sorted(slices.Values(c.Options)), slices.Sorted(slices.Values(d.Options)))
}

// appendText appends c in the format of resolv.conf(5). Nameserver lines come first, so that
// a resolver that reads the file in pieces has them in the first piece. An empty list gives
// no line.
func (c Config) appendText(b []byte) []byte {
	for _, s := range c.Nameservers {
		b = append(b, "nameserver "...)
		b = append(b, s...)
		b = append(b, '\n')
	}
	b = appendLine(b, "search", c.Searches)
	return appendLine(b, "options", c.Options)
}

// String returns c in the format of resolv.conf(5). Nameservers come first.
func (c Config) String() string { return string(c.appendText(nil)) }

func appendLine(b []byte, keyword string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(b, keyword...)
	for _, v := range values {
		b = append(b, ' ')
		b = append(b, v...)
	}
	return append(b, '\n')
}

// optionKey returns the name of an option, which is the text before the first ":".
func optionKey(option string) string {
	key, _, _ := strings.Cut(option, ":")
	return key
}
