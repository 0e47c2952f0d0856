// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Codes of the EDNS0 option SearchPaths. The option has no assigned code. It uses one of the codes
// for local use (RFC 6891 section 9), which is configurable at both ends because other programs
// use some of them: dnsmasq uses 65001.
const (
	DefaultOption = 65313
	MinOption     = 65001
	MaxOption     = 65534
)

// Limits of the option. They are those of resolv.conf in Kubernetes, so that the search list
// of every pod fits.
const (
	MaxPaths = 32   // domains
	MaxText  = 2048 // octets, commas included
)

// Encode returns the value of the option: the domains as text without the final dot,
// separated by commas. It returns an error if there are none or too many.
func Encode(paths []fqdn.Name) ([]byte, error) {
	if len(paths) == 0 || len(paths) > MaxPaths {
		return nil, fmt.Errorf("search list has %d domains: want 1 to %d", len(paths), MaxPaths)
	}
	var value []byte
	for i, p := range paths {
		if p == "" {
			return nil, fmt.Errorf("domain %d of the search list is empty", i+1)
		}
		text := p.String()
		if p != fqdn.Root {
			text = strings.TrimSuffix(text, ".")
		}
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, strings.ReplaceAll(text, ",", `\044`)...) // a comma in a label
	}
	if len(value) > MaxText {
		return nil, fmt.Errorf("search list has %d octets: the limit is %d", len(value), MaxText)
	}
	return value, nil
}

// Decode parses the value of the option. Names may be in any case and with a final dot; they
// are returned in lower case. A server ignores an option that is invalid.
func Decode(value []byte) ([]fqdn.Name, error) {
	switch {
	case len(value) == 0:
		return nil, errors.New("no domain")
	case len(value) > MaxText:
		return nil, fmt.Errorf("%d octets: the limit is %d", len(value), MaxText)
	}
	if i := bytes.IndexFunc(value, func(r rune) bool { return r < '!' || r > '~' }); i >= 0 {
		return nil, fmt.Errorf("octet %d is not printable ASCII", i+1)
	}
	n := bytes.Count(value, []byte(",")) + 1
	if n > MaxPaths {
		return nil, fmt.Errorf("%d domains: the limit is %d", n, MaxPaths)
	}
	paths := make([]fqdn.Name, 0, n)
	for text := range strings.SplitSeq(string(value), ",") {
		name, err := fqdn.ParseName(text)
		if err != nil {
			return nil, fmt.Errorf("domain %d %w", len(paths)+1, err)
		}
		paths = append(paths, name)
	}
	return paths, nil
}
