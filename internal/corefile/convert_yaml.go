// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// fields are the fields of a configuration by name.
type fields map[string]field

// field is the value of a field, and the directive that it is from.
type field struct {
	value any
	from  Directive
}

// item is an item of a list, and the directive that it is from.
type item struct {
	value any
	from  Directive
}

// order is the order of the fields in a file.
const order = `http lameduck listen clusterDomain reverseCIDRs upstreams resolvConf upstreamPolicy stubDomains chaos dns64Prefix ` +
	`maxQueries queryLog.classes queryLog.zones interface clusterDNS ` +
	`kubeconfig pods ttl externalZones hosts.file hosts.ttl hosts.entries rewrite acl answers`

const head = `# Written by dnsconfigurer import-corefile. CoreDNS forwards names in localhost, invalid, test, onion and home.arpa,
# and reverse names of loopback, link-local and documentation addresses; here they are answered, unless stubDomains
# has them (docs/dns.md#local-names).
apiVersion: dnsconfigurer.dev/v1alpha1
`

// yaml returns the file of a kind. Values in JSON are YAML.
func (f fields) yaml(kind string) []byte {
	var b bytes.Buffer
	b.WriteString(head + "kind: " + kind + "\n")
	section := ""
	for path := range strings.FieldsSeq(order) {
		v, ok := f[path]
		if !ok {
			continue
		}
		outer, name, isInner := strings.Cut(path, ".")
		indent := ""
		if isInner {
			indent = "  "
		} else {
			name = outer
		}
		if isInner && outer != section {
			fmt.Fprintf(&b, "%s:\n", outer)
			section = outer
		}
		items, isList := v.value.([]item)
		if !isList {
			fmt.Fprintf(&b, "%s%s\n%s%s: %s\n", indent, comment(v.from), indent, name, flow(v.value))
			continue
		}
		fmt.Fprintf(&b, "%s%s:\n", indent, name)
		for _, i := range items {
			fmt.Fprintf(&b, "%s%s\n%s- %s\n", indent, comment(i.from), indent, flow(i.value))
		}
	}
	return b.Bytes()
}

// comment returns the place and the text of a directive as a comment.
func comment(d Directive) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, fmt.Sprintf("%s:%d: %s", d.File, d.Line, d))
	return "# " + strings.ToValidUTF8(text, " ")
}

func flow(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // groups of regular expressions have < and >
	if err := encoder.Encode(v); err != nil {
		panic(err) // the values are texts and numbers
	}
	return strings.TrimSpace(b.String())
}
