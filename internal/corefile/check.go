// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Comparison is what CoreDNS needs to be compared with a server with the configuration for its Corefile. The plugin
// kubernetes needs an API server: instead both have the Services whose names are in the Corefile, and no others.
type Comparison struct {
	Text      string // of the Corefile, for the loopback interface
	Zone      string // the records of the cluster, a file of the Corefile
	Manifests string // the same Services
	Names     []Question
	Omitted   []string // what is not compared

	cluster []string // zones that the plugin kubernetes alone answers
	ttl     string   // of the cluster's names
}

// Question is a name, with the port of CoreDNS that has its zone.
type Question struct{ Name, Port string }

// notCompared are plugins that do not change answers, or need an API server.
const notCompared = "autopath bind debug dnstap errors health import k8s_external kubernetes loop pprof prometheus ready reload tls trace"

const maxNames = 400 // of a Comparison

// Compare returns the Comparison of blocks that Convert has converted. ports has a port of the loopback interface for
// each port in the blocks; zoneFile is the path of Zone, and texts are those of files with hosts and zones.
func Compare(blocks []Block, ports map[string]string, zoneFile string, texts []string) (c Comparison) {
	c.ttl = "5"
	for _, b := range blocks {
		served := Directive{Name: c.keys(b, ports), Body: []Directive{{Name: "bind", Args: []string{"127.0.0.1"}}}}
		for _, d := range b.Directives {
			if !slices.Contains(strings.Fields(notCompared), d.Name) {
				served.Body = append(served.Body, d)
			}
		}
		for _, d := range b.Find("kubernetes") {
			served.Body = append(served.Body, c.clusterFile(b, d, zoneFile))
		}
		if served.Name != "" {
			c.Text += served.text()
		}
	}
	names := questionNames(append([]string{c.Text}, texts...))
	c.addServices(names)
	for _, name := range names {
		lower := strings.ToLower(name)
		isCluster := slices.ContainsFunc(c.cluster, func(z string) bool { return isWithin(lower, z) })
		if b := (&converter{blocks: blocks}).blockOf(lower); b != nil && !isCluster {
			_, port := SplitKey(b.Keys[0])
			c.Names = append(c.Names, Question{name + ".", ports[port]})
		}
	}
	return c
}

func (c *Comparison) keys(b Block, ports map[string]string) (keys string) {
	for _, key := range b.Keys {
		zone, port := SplitKey(key)
		if scheme, _, ok := strings.Cut(key, "://"); ok && scheme != "dns" {
			c.Omitted = append(c.Omitted, key)
		} else {
			keys += zone + ":" + ports[port] + " "
		}
	}
	return keys
}

// clusterFile returns the plugin file with the zones of Services, instead of the plugin kubernetes.
func (c *Comparison) clusterFile(b Block, d Directive, zoneFile string) Directive {
	file := Directive{Name: "file", Args: []string{zoneFile}, Body: d.Find("fallthrough")}
	if len(d.Args) > 0 {
		b.Keys = d.Args
	}
	for _, z := range b.zones() {
		falls := func(f Directive) bool { return len(f.Args) == 0 || slices.Contains(f.Args, z) }
		if !isReverse(z) {
			file.Args = append(file.Args, z)
		}
		if !isReverse(z) || !slices.ContainsFunc(file.Body, falls) {
			c.cluster, c.Omitted = append(c.cluster, z), append(c.Omitted, "names in "+z)
		}
	}
	for _, property := range d.Find("ttl") {
		c.ttl = property.Args[0]
	}
	return file
}

var serviceName = regexp.MustCompile(`^([a-z][a-z0-9-]*)\.([a-z0-9]+)\.svc\.`)

// addServices adds the Services among the names to both servers.
func (c *Comparison) addServices(names []string) {
	c.Zone = "@ 5 IN SOA ns.dns hostmaster.dns 1 2 3 4 5\n"
	for i, name := range names[:min(len(names), 250)] {
		if m := serviceName.FindStringSubmatch(strings.ToLower(name)); m != nil {
			c.Zone += fmt.Sprintf("%s.%s.svc %s IN A 10.96.0.%d\n", m[1], m[2], c.ttl, i)
			c.Manifests += fmt.Sprintf("---\n{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, "+
				"spec: {clusterIP: 10.96.0.%d, ports: [{port: 80}]}}\n", m[1], m[2], i)
		}
	}
}

// text returns a directive as CoreDNS reads it.
func (d Directive) text() (text string) {
	for _, word := range append([]string{d.Name}, d.Args...) {
		if d.File != "" && (word == "" || strings.ContainsAny(word, " \t\n\"#")) {
			word = `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
		}
		text += word + " "
	}
	if len(d.Body) > 0 {
		text += "{\n"
		for _, inner := range d.Body {
			text += inner.text()
		}
		text += "}"
	}
	return text + "\n"
}

var nameInText = regexp.MustCompile(`[A-Za-z0-9_.:-]+`)

// questionNames returns at most maxNames names: those in texts, the first of which is a Corefile, and others of their
// labels. None is there twice, whatever its case: the TTL of a cached answer has counted down.
func questionNames(texts []string) (names []string) {
	labels, seen := []string{"x", "a-b", "host7", "--"}, map[string]bool{}
	add := func(name string) {
		if lower := strings.ToLower(name); isQuestion(name) && !seen[lower] {
			names, seen[lower] = append(names, name), true
		}
	}
	for i, text := range texts {
		for _, word := range nameInText.FindAllString(strings.ReplaceAll(text, `\.`, "."), -1) {
			word = nameOf(word)
			if (i > 0 || strings.Contains(word, ".")) && len(names) < maxNames/2 {
				add(word)
			}
			labels = append(labels, strings.Split(word, ".")...)
		}
	}
	known, r := slices.Clone(names), rand.New(rand.NewPCG(1, uint64(len(labels)))) // the same names in each run
	label := func() string { return labels[r.IntN(len(labels))] }
	for tries := 0; len(known) > 0 && len(names) < maxNames && tries < 4*maxNames; tries++ {
		name := known[r.IntN(len(known))]
		_, rest, _ := strings.Cut(name, ".")
		add(label() + []string{"", "."}[r.IntN(2)] + []string{name, rest, label() + "." + label()}[r.IntN(3)])
	}
	return names
}

// nameOf returns the name in a word, or the reverse name of an address.
func nameOf(word string) string {
	word = strings.Trim(word, ".-:")
	if addr, err := netip.ParseAddr(word); err == nil {
		word, _ = dns.ReverseAddr(addr.String())
	}
	word, _, _ = strings.Cut(word, ":") // a port
	return strings.TrimSuffix(word, ".")
}

// isQuestion reports whether name is a domain name without a dot at its end.
func isQuestion(name string) bool {
	_, ok := dns.IsDomainName(name)
	return ok && strings.Trim(name, ".") == name && !strings.Contains(name, "..")
}
