// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// Note is what a directive does in CoreDNS and not in the cluster DNS server.
type Note struct {
	File    string
	Line    int
	Message string
	Changes bool // queries get other answers; otherwise the same, with other times, transports or side effects
}

// String returns the note with its place.
func (n Note) String() string { return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Message) }

// Problems returns the problems as joined errors with their places; nil: there are none.
func Problems(problems []Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s:%d: CoreDNS refuses this: %s", p.File, p.Line, p.Message))
	}
	return errors.Join(errs...)
}

// converter collects what the blocks of a Corefile become.
type converter struct {
	table  rules
	blocks []Block
	fields fields
	notes  []Note

	domain      string // the cluster domain
	upstream    string // the servers of the zone .
	stubs       []stub
	http        *Directive // of prometheus, health or ready, in this order
	ports       []string
	addresses   []string // of bind
	hasUpstream bool
	queries     queryLog
}

// stub is a zone with servers of its own.
type stub struct {
	Zone    string   `json:"zone"`
	Servers []string `json:"servers,omitempty"`
	File    string   `json:"file,omitempty"`
	from    Directive
}

// Convert returns the DNSConfiguration, or without the plugin kubernetes the NodeCacheConfiguration, in YAML with
// comments, that answers as CoreDNS does with these blocks, and the differences. It returns an error if CoreDNS refuses
// the blocks, or they do not serve a cluster.
func Convert(blocks []Block) ([]byte, []Note, error) {
	c := &converter{table: readRules(), blocks: blocks, fields: fields{}}
	for i := range blocks {
		c.dropOld(&blocks[i])
	}
	problems := slices.Concat(DuplicateZones(blocks), Refused(blocks, func(hasSimilar bool) bool { return hasSimilar }))
	if len(problems) > 0 {
		return nil, nil, Problems(problems)
	}
	for i := range blocks {
		c.block(&blocks[i])
	}
	if slices.ContainsFunc(blocks, func(b Block) bool { return len(b.Find("kubernetes")) > 0 }) {
		c.finish()
		return c.fields.yaml(v1alpha1.KindDNS), c.notes, nil
	}
	if err := c.nodeCache(); err != nil {
		return nil, nil, err
	}
	c.finish()
	c.dropClusterFields()
	return c.fields.yaml(v1alpha1.KindNodeCache), c.notes, nil
}

// note notes a difference in times, transports or side effects.
func (c *converter) note(d Directive, format string, args ...any) {
	c.add(Note{d.File, d.Line, fmt.Sprintf(format, args...), false})
}

// changes notes that queries get other answers.
func (c *converter) changes(d Directive, format string, args ...any) {
	c.add(Note{d.File, d.Line, fmt.Sprintf(format, args...), true})
}

// add adds a note, once for each message about times, transports and side effects.
func (c *converter) add(n Note) {
	isSame := func(other Note) bool { return other.Message == n.Message && (other.Line == n.Line || !n.Changes) }
	if !slices.ContainsFunc(c.notes, isSame) {
		c.notes = append(c.notes, n)
	}
}

// set sets a field once.
func (c *converter) set(name string, value any, d Directive) {
	if old, ok := c.fields[name]; ok {
		if fmt.Sprint(old.value) != fmt.Sprint(value) {
			c.add(Note{d.File, d.Line, fmt.Sprintf("%s: %s is the same for all zones, as in line %d", d, name, old.from.Line),
				!slices.Contains([]string{"maxQueries", "upstreamPolicy", "lameduck"}, name)})
		}
		return
	}
	c.fields[name] = field{value: value, from: d}
}

// oldProperties were removed from CoreDNS.
const oldProperties = "upstream resyncperiod transfer"

// dropOld removes what CoreDNS 1.15 no longer has, and renames proxy, the name of forward until 1.5.
func (c *converter) dropOld(b *Block) {
	var kept []Directive
	for _, d := range b.Directives {
		old := ""
		switch d.Name {
		case "kubernetes":
			old = oldProperties
		case "proxy":
			d.Name, old = "forward", "spray protocol health_check fail_timeout"
		}
		var body []Directive
		for _, property := range d.Body {
			if slices.Contains(strings.Fields(old), property.Name) {
				c.note(property, "%s %s: removed from CoreDNS, left out", d.Name, property.Name)
			} else {
				body = append(body, property)
			}
		}
		d.Body = body
		kept = append(kept, d)
	}
	b.Directives = kept
}

// zones returns the zones of a block without final dot; "" is the root. A network becomes its reverse zones.
func (b *Block) zones() (list []string) {
	for _, key := range b.Keys {
		name, _ := SplitKey(key)
		name = strings.TrimSuffix(name, ".")
		network, err := netip.ParsePrefix(name)
		if err != nil {
			list = append(list, name)
			continue
		}
		for _, z := range zone.ReverseZones(network) {
			list = append(list, strings.TrimSuffix(z.String(), "."))
		}
	}
	return list
}

func (c *converter) block(b *Block) {
	head := Directive{File: b.File, Line: b.Line, Name: strings.Join(b.Keys, " ")}
	c.listen(b, head)
	isHidden, isAnswered := false, len(b.Find("kubernetes")) > 0
	for _, d := range b.Directives {
		switch d.Name {
		case "kubernetes":
			c.kubernetes(b, d)
		case "forward":
			c.forward(b, d, isHidden)
			isOther := func(z string) bool { return !isWithin(z, forwardZone(d)) }
			isHidden = isHidden || !slices.ContainsFunc(b.zones(), isOther)
		case "hosts":
			c.hosts(b, d)
		case "log":
			c.log(b, d)
		case "prometheus", "health", "ready":
			c.serves(d)
		case "acl", "template", "rewrite", "k8s_external": // see finish
		case "bind":
			c.bind(d)
		case "dns64":
			c.dns64(b, d)
		case "chaos":
			c.chaos(b, d)
		case "file":
			isAnswered = c.file(b, d) || isAnswered
		default:
			c.other(d)
		}
	}
	if !isAnswered && !isHidden && !slices.Contains(b.zones(), "") {
		c.changes(head, "%s: without forward CoreDNS answers SERVFAIL to what its plugins do not answer; here these names are forwarded",
			head.Name)
	}
}

func (c *converter) listen(b *Block, head Directive) {
	var ports []string
	for _, key := range b.Keys {
		scheme, _, hasScheme := strings.Cut(key, "://")
		_, port := SplitKey(key)
		switch {
		case hasScheme && scheme != "dns":
			c.changes(head, "%s: only DNS over UDP and TCP is served", key)
		case !slices.Contains(ports, port):
			ports = append(ports, port)
		}
	}
	for _, port := range ports {
		if slices.Contains(c.ports, port) {
			continue
		}
		if len(c.ports) > 0 {
			c.changes(head, "port %s: all zones are served at all ports", port)
		}
		c.ports = append(c.ports, port)
	}
}

// other notes what the table says about a plugin and its properties.
func (c *converter) other(d Directive) {
	c.explain(d, d.Name)
	if d.Name == "loadbalance" && slices.Contains(d.Args, "weighted") {
		c.changes(d, "loadbalance weighted: addresses are rotated")
	}
	for _, property := range d.Body {
		if key := d.Name + " " + property.Name; c.table.find(key).explained {
			c.explain(property, key)
		}
	}
}

func (c *converter) explain(d Directive, key string) {
	switch r := c.table.find(key); {
	case !r.explained:
		c.changes(d, "%s: nothing like it: keep a CoreDNS for the names concerned, and forward to it: "+
			"stubDomains: [{zone: ZONE, servers: [ADDRESS]}]", key)
	case r.changes:
		c.changes(d, "%s: %s", key, r.text)
	case r.text != "":
		c.note(d, "%s: %s", key, r.text)
	}
}

func (c *converter) kubernetes(b *Block, d Directive) {
	if c.domain != "" {
		c.changes(d, "a second kubernetes: only the names of %s are served", c.domain)
		return
	}
	zones := d.Args
	if len(zones) == 0 {
		zones = b.zones()
	}
	var reverse []string
	for _, z := range zones {
		name := normalZone(z)
		_, notNetwork := netip.ParsePrefix(name)
		switch {
		case notNetwork == nil || strings.HasSuffix(name, ".arpa"):
			reverse = append(reverse, name)
		case name == "":
			c.changes(d, "the zone . cannot be the cluster domain: name it, such as cluster.local")
		case c.domain != "":
			c.changes(d, "%s is not served: a cluster has one domain, %s", z, c.domain)
		default:
			c.domain = name
			c.set("clusterDomain", name, d)
		}
	}
	c.reverse(d, reverse)
	pods, ttl, source := "disabled", defaultTTL, d
	for _, property := range d.Body {
		value := strings.Join(property.Args, " ")
		switch property.Name {
		case "pods":
			pods = value
		case "ttl":
			ttl, source = number(value), property
		case "kubeconfig":
			c.set("kubeconfig", property.Args[0], property)
		case "fallthrough":
			isCluster := func(z string) bool { return !strings.HasSuffix(normalZone(z), "arpa") }
			if len(property.Args) == 0 || slices.ContainsFunc(property.Args, isCluster) {
				c.changes(property, "%s: CoreDNS forwards names that the cluster does not have, here they get NXDOMAIN", property)
			}
		default:
			c.explain(property, "kubernetes "+property.Name)
		}
	}
	c.set("pods", pods, d)
	c.set("ttl", min(ttl, cacheTTL(b)), source)
}

func (c *converter) reverse(d Directive, zones []string) {
	if len(zones) == 0 {
		c.changes(d, "without in-addr.arpa CoreDNS answers no reverse names of Services and pods; here they are answered")
	}
	var networks []string
	for _, z := range zones {
		falls := slices.ContainsFunc(d.Find("fallthrough"), func(f Directive) bool {
			return len(f.Args) == 0 || slices.ContainsFunc(f.Args, func(a string) bool { return isWithin(z, normalZone(a)) })
		})
		network, err := netip.ParsePrefix(z)
		switch {
		case falls:
		case err == nil:
			networks = append(networks, network.Masked().String())
		default:
			c.changes(d, "%s without fallthrough: CoreDNS denies reverse names that the cluster does not have, here they are forwarded: "+
				"set reverseCIDRs to the networks of Services and pods", z)
		}
	}
	if len(networks) > 0 {
		c.set("reverseCIDRs", networks, d)
	}
}

// normalZone returns a zone in lower case without final dot.
func normalZone(text string) string { return strings.ToLower(strings.TrimSuffix(text, ".")) }

// isWithin reports whether a name is a zone or below it. Both have no final dot.
func isWithin(name, zone string) bool {
	return zone == "" || name == zone || strings.HasSuffix(name, "."+zone)
}

// serves converts prometheus, health and ready, which share an address. The kubelet cannot probe a loopback address, which
// prometheus has by default.
func (c *converter) serves(d Directive) {
	for _, property := range d.Find("lameduck") {
		c.set("lameduck", property.Args[0], property)
	}
	for _, property := range d.Find("tls") {
		c.note(property, "%s tls: metrics are served without TLS", d.Name)
	}
	rank := func(d Directive) int {
		host, _, _ := net.SplitHostPort(httpAddress(d))
		addr, _ := netip.ParseAddr(host)
		switch {
		case host == "localhost" || addr.IsLoopback():
			return 0
		case d.Name == "prometheus":
			return 2
		}
		return 1
	}
	if c.http == nil || rank(d) > rank(*c.http) || rank(d) == rank(*c.http) && d.Name == "prometheus" && c.http.Name != d.Name {
		c.http = &d
	}
}

func httpAddress(d Directive) string {
	if len(d.Args) > 0 {
		return d.Args[0]
	}
	return map[string]string{"prometheus": "localhost:9153", "health": ":8080", "ready": ":8181"}[d.Name]
}

func (c *converter) bind(d Directive) {
	for _, a := range d.Args {
		if _, err := netip.ParseAddr(a); err != nil {
			c.changes(d, "bind %s: write the addresses of the interface into listen", a)
		} else if !slices.Contains(c.addresses, a) {
			c.addresses = append(c.addresses, a)
		}
	}
	for _, property := range d.Body {
		c.changes(property, "bind %s: has no counterpart", property)
	}
}

// finish sets the fields that several blocks decide.
func (c *converter) finish() {
	first := Directive{File: c.blocks[0].File, Line: c.blocks[0].Line, Name: strings.Join(c.blocks[0].Keys, " ")}
	if len(c.addresses) == 0 {
		c.addresses = []string{"::"}
	}
	var listen []string
	for _, port := range c.ports {
		for _, a := range c.addresses {
			listen = append(listen, net.JoinHostPort(a, port))
		}
	}
	if len(listen) > 0 {
		c.set("listen", listen, first)
	}
	if c.http != nil {
		address := httpAddress(*c.http)
		c.set("http", address, *c.http)
		c.note(*c.http, "health, ready and metrics: all at %s: probe /livez instead of /health, /readyz instead of /ready", address)
	}
	c.finishLog()
	c.rewriteRules()
	c.aclRules()
	c.externalZones()
	for _, s := range c.validStubs() {
		c.addItem("stubDomains", s, s.from)
	}
	if !c.hasUpstream {
		c.set("resolvConf", "", Directive{File: first.File, Line: first.Line, Name: "no forward for the zone ."})
	}
}
