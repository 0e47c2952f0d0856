// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"slices"
	"strings"
)

// Config is what a resolv.conf says, each list in the order of the file. The
// zero value is an empty file. Values are text and not checked: a nameserver may
// have a zone, a domain any length.
type Config struct {
	Nameservers []string // addresses
	Searches    []string // domains
	Options     []string // "name" or "name:value"
}

// Equal tells whether c and d give a resolver the same orders. Options are
// compared as a set: the kubelet writes them in random order.
func (c Config) Equal(d Config) bool {
	return slices.Equal(c.Nameservers, d.Nameservers) &&
		slices.Equal(c.Searches, d.Searches) &&
		slices.Equal(slices.Sorted(slices.Values(c.Options)), slices.Sorted(slices.Values(d.Options)))
}

// appendText appends c in the form of resolv.conf(5). Nameserver lines come
// first, so that a resolver that reads the file in pieces finds them in the first
// one. Empty lists give no line.
func (c Config) appendText(b []byte) []byte {
	for _, s := range c.Nameservers {
		b = append(b, "nameserver "...)
		b = append(b, s...)
		b = append(b, '\n')
	}
	b = appendLine(b, "search", c.Searches)
	return appendLine(b, "options", c.Options)
}

// String returns the text that appendText writes.
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

// optionKey returns the name of an option: the text before the first ":".
func optionKey(option string) string {
	if i := strings.IndexByte(option, ':'); i >= 0 {
		return option[:i]
	}
	return option
}
