// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn

import (
	"errors"
	"fmt"
	"strings"
)

// MaxWire is the longest name on the wire, the root's empty label included
// (RFC 1035 section 2.3.4).
const MaxWire = 255

// Name is a domain name in canonical form: the labels as on the wire, each behind
// its length, uncompressed, A to Z in lower case, the root's zero octet at the end
// (RFC 4034 section 6.2). Names that mean the same are equal strings, and a byte in
// a label is never mistaken for the dot between two.
//
// The zero Name is no name; the root is "\x00".
type Name string

// Root is the name of the root.
const Root Name = "\x00"

// ParseName reads a name in text, with or without the last dot, with the escapes
// \X and \DDD of RFC 1035 section 5.1. The error says what is wrong, without the
// text itself.
func ParseName(text string) (Name, error) {
	if text == "" {
		return "", errors.New("is empty")
	}
	if text == "." {
		return Root, nil
	}
	wire := make([]byte, 1, len(text)+2)
	start := 0 // where the length of the present label goes
	end := func() error {
		n := len(wire) - start - 1
		if n == 0 {
			return errors.New("has an empty label")
		}
		if n > MaxLabel {
			return fmt.Errorf("has a label of %d bytes, a label has at most %d", n, MaxLabel)
		}
		wire[start] = byte(n)
		start = len(wire)
		wire = append(wire, 0)
		return nil
	}
	for i := 0; i < len(text); {
		if text[i] == '.' {
			if err := end(); err != nil {
				return "", err
			}
			i++
			continue
		}
		c, n := unescape(text[i:])
		if n == 0 {
			return "", errors.New("has a broken escape")
		}
		wire = append(wire, lower(c))
		i += n
	}
	if len(wire) > start+1 { // the last dot is optional
		if err := end(); err != nil {
			return "", err
		}
	}
	if len(wire) > MaxWire {
		return "", fmt.Errorf("is %d bytes long on the wire, a domain name has at most %d", len(wire), MaxWire)
	}
	return Name(wire), nil
}

// unescape returns the first character of text and how many bytes spell it, 0 for
// an escape that is none.
func unescape(text string) (c byte, n int) {
	if text[0] != '\\' {
		return text[0], 1
	}
	if len(text) < 2 {
		return 0, 0
	}
	if !isDigit(text[1]) {
		return text[1], 2
	}
	if len(text) < 4 || !isDigit(text[2]) || !isDigit(text[3]) {
		return 0, 0
	}
	v := int(text[1]-'0')*100 + int(text[2]-'0')*10 + int(text[3]-'0')
	if v > 255 {
		return 0, 0
	}
	return byte(v), 4
}

// String returns the name in text, with the last dot, escaped where a byte would
// not be read as itself; "" for the zero Name.
func (n Name) String() string {
	if n == Root {
		return "."
	}
	var b strings.Builder
	for n != "" && n != Root {
		label, parent := n.Cut()
		for i := range len(label) {
			switch c := label[i]; {
			case c < '!' || c > '~':
				fmt.Fprintf(&b, `\%03d`, c)
			case strings.IndexByte(`."();@\$`, c) >= 0:
				b.WriteByte('\\')
				b.WriteByte(c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('.')
		n = parent
	}
	return b.String()
}

// Cut returns the first label, without its length, and the name above it. The
// root and the zero Name have neither.
func (n Name) Cut() (label string, parent Name) {
	if len(n) < 2 {
		return "", ""
	}
	end := 1 + int(n[0])
	return string(n[1:end]), n[end:]
}

// Within returns what stands before zone in n, "" when n is the zone itself; ok is
// false when n is neither the zone nor below it.
func (n Name) Within(zone Name) (below Name, ok bool) {
	if !strings.HasSuffix(string(n), string(zone)) || zone == "" {
		return "", false
	}
	// The bytes of zone may also end a longer label.
	cut := len(n) - len(zone)
	i := 0
	for i < cut {
		i += 1 + int(n[i])
	}
	return n[:cut], i == cut
}

// Join returns the name labels.parent, the first label first. It panics on a label
// or a name that is too long: its callers have checked.
func Join(parent Name, labels ...string) Name {
	var b strings.Builder
	for _, l := range labels {
		if l == "" || len(l) > MaxLabel {
			panic(fmt.Sprintf("fqdn: label %q has %d bytes", l, len(l)))
		}
		b.WriteByte(byte(len(l)))
		for i := range len(l) {
			b.WriteByte(lower(l[i]))
		}
	}
	b.WriteString(string(parent))
	if b.Len() > MaxWire {
		panic("fqdn: name too long: " + b.String())
	}
	return Name(b.String())
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
