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

// The code of the EDNS0 option SearchPaths. None is assigned, so it is one of those
// for local use (RFC 6891 section 9), and may be any of them on both ends: others use
// some too, dnsmasq for one 65001.
const (
	DefaultOption = 65313
	MinOption     = 65001
	MaxOption     = 65534
)

// Limits of the option. A resolv.conf has no more either, so that every search list
// that Kubernetes gives to a pod fits.
const (
	MaxPaths = 32   // domains
	MaxText  = 2048 // octets, commas included
)

// Encode returns the value of the option: the domains in text, without their last
// dots, with commas between them. It is an error if there are none, or too many.
func Encode(paths []fqdn.Name) ([]byte, error) {
	if len(paths) == 0 || len(paths) > MaxPaths {
		return nil, fmt.Errorf("a search list of %d domains, the option has 1 to %d", len(paths), MaxPaths)
	}
	var value []byte
	for i, p := range paths {
		if p == "" {
			return nil, fmt.Errorf("domain %d of the search list is no name", i+1)
		}
		text := p.String()
		if p != fqdn.Root {
			text = strings.TrimSuffix(text, ".")
		}
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, strings.ReplaceAll(text, ",", `\044`)...) // in a label it separates nothing
	}
	if len(value) > MaxText {
		return nil, fmt.Errorf("a search list of %d octets, the option has at most %d", len(value), MaxText)
	}
	return value, nil
}

// Decode reads the value of the option. The names come in lower case and may have had
// their last dots. The error says what is wrong; a server ignores such an option, as
// if it were not there.
func Decode(value []byte) ([]fqdn.Name, error) {
	switch {
	case len(value) == 0:
		return nil, errors.New("no domain")
	case len(value) > MaxText:
		return nil, fmt.Errorf("%d octets, at most %d are allowed", len(value), MaxText)
	}
	if i := bytes.IndexFunc(value, func(r rune) bool { return r < '!' || r > '~' }); i >= 0 {
		return nil, fmt.Errorf("octet %d is a blank or no printable character of ASCII", i+1)
	}
	n := bytes.Count(value, []byte(",")) + 1
	if n > MaxPaths {
		return nil, fmt.Errorf("%d domains, at most %d are allowed", n, MaxPaths)
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
