// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// corefileSource is the Corefile of the cluster DNS.
type corefileSource struct {
	config   *corev1.ConfigMap
	text     string
	blocks   []Block
	problems []Problem
}

// located is a directive and the block in which it is.
type located struct {
	block *Block
	Directive
}

// find returns the directives of all blocks with this name.
func (c *corefileSource) find(name string) (list []located) {
	for i := range c.blocks {
		for _, d := range c.blocks[i].Find(name) {
			list = append(list, located{&c.blocks[i], d})
		}
	}
	return list
}

// evidenceLine returns a line of the Corefile with its number.
func evidenceLine(line int, text string) string { return fmt.Sprintf("Corefile:%d: %s", line, text) }

func (l located) evidence() string { return evidenceLine(l.Line, l.String()) }

func blockLine(b Block) string {
	return evidenceLine(b.Line, strings.Join(b.Keys, " ")+" {")
}

// zonesOf returns the zones of the plugin kubernetes: its arguments, or those of its block.
func zonesOf(k located) []string {
	if len(k.Args) == 0 {
		return k.block.Zones()
	}
	var zones []string
	for _, a := range k.Args {
		zones = append(zones, strings.ToLower(strings.TrimSuffix(a, "."))+".")
	}
	return zones
}

func (c *corefileSource) kubernetesZones() (zones []string) {
	for _, k := range c.find("kubernetes") {
		zones = append(zones, zonesOf(k)...)
	}
	return zones
}

func isReverse(zone string) bool {
	_, err := netip.ParsePrefix(strings.TrimSuffix(zone, "."))
	return err == nil || isWithin(zone, "in-addr.arpa.") || isWithin(zone, "ip6.arpa.")
}

// rootBlock returns the block for the names outside the cluster, nil if there is none.
func (c *corefileSource) rootBlock() *Block {
	for i := range c.blocks {
		if slices.Contains(c.blocks[i].Zones(), ".") {
			return &c.blocks[i]
		}
	}
	return nil
}

// imports reports whether other files add to the Corefile.
func (c *corefileSource) imports() bool { return len(c.find("import")) > 0 }

// addressOf returns the address of a server of the plugin forward; ok is false if it is
// another kind of text, such as a file.
func addressOf(to string) (addr netip.Addr, ok bool) {
	if _, rest, hasScheme := strings.Cut(to, "://"); hasScheme {
		to, _, _ = strings.Cut(rest, "%")
	}
	if withPort, err := netip.ParseAddrPort(to); err == nil {
		return withPort.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(to, "[]"))
	return addr.Unmap(), err == nil
}
