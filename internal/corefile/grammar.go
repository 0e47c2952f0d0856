// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// grammar has the arguments of plugins and, after each semicolon, a property in their braces, as the setup functions
// of CoreDNS v1.15.0 read them. A plugin with ! has one stanza in a block. The kinds of arguments are those of
// checkKind; [ ] is optional, * is any number of any words, + is one or more. A property ... permits others.
const grammar = `
acl *; allow *; block *; filter *; drop *
autopath +
bind +; except +
bufsize [int:512-4096]
cache! [ttl] *; success int [int:1-] [int:0-]; denial int [int:1-] [int:0-]; prefetch int:0- [duration] [percent]; serve_stale [duration] [=immediate|verify] *; ` +
	`serve_stale_policy =prefer_positive; servfail duration:0s-5m; disable =success|denial *; keepttl
chaos *
debug
dns64 *; prefix any; translate_all; allow_ipv4
erratic *; drop [int]; truncate [int]; delay [int] [duration]; large
errors! [=stdout]; stacktrace *; consolidate duration regexp [=warning|error|info|debug|show_first] [=show_first]
etcd *; ...
file +; ...
forward any server+; except +; max_fails int:0-; max_connect_attempts int:0-; health_check duration [=no_rec|domain] *; force_tcp; prefer_udp; ` +
	`tls [any] [any] [any]; tls_servername any; expire duration; max_age duration; max_idle_conns int:0-; read_timeout duration; ` +
	`doh_method =POST|GET; policy =random|round_robin|sequential; max_concurrent int:0-; next rcode *; next_on_nodata; ` +
	`failfast_all_unhealthy_upstreams; failover rcode *; resolver +; source_address any
health [address]; lameduck duration
hosts! *; fallthrough *; fallthrough_unsupported; no_reverse; ttl int:1-65535 *; reload duration; ...
k8s_external *; ...
kubernetes! *; endpoint_pod_names; pods =disabled|insecure|verified; namespaces +; endpoint +; tls any any any; labels +; ` +
	`namespace_labels +; fallthrough *; ttl int:0-3600 *; noendpoints; zonal; ignore =empty_service *; kubeconfig any [any]; ` +
	`multicluster *; startup_timeout duration *; apiserver_qps any; apiserver_burst int:0-; apiserver_max_inflight int:0-
loadbalance [=round_robin|weighted] [any]; prefer *; reload duration
local
log *; class =all|success|denial|error *
loop!
metadata *
minimal
nsid *
pprof *; block [int]
prometheus! [address]; runtime_metrics; tls any
ready! [address]; monitor =until-ready|continuously
reload! [duration:2s-] [duration]
rewrite =stop|continue|name|class|type|edns0|ttl|cname|rcode [any] *; ...
root any
template class type *; match regexp+; answer +; additional +; authority +; var any any *; expr +; rcode rcode; ederror int:0-65535 [any]; ` +
	`fallthrough *; upstream *
whoami
`

// otherPlugins are the further plugins of v1.15.0, and the words that are read as one: only their names are checked.
const otherPlugins = `any auto azure cancel clouddns dnssec dnstap dynupdate geoip grpc grpc_server header https https3 import
multisocket nomad on proxyproto quic route53 secondary shed sign siit timeouts tls trace transfer tsig view`

// removedPlugins are plugins of earlier versions, which no build has.
const removedPlugins = "federation proxy reverse"

// rule is what the grammar has of a plugin.
type rule struct {
	once       bool
	args       []string
	properties map[string][]string
}

// rules returns the grammar by the names of plugins.
func rules() map[string]rule {
	all := map[string]rule{}
	for text := range strings.Lines(strings.TrimSpace(grammar)) {
		parts := strings.Split(text, ";")
		words := strings.Fields(parts[0])
		r := rule{args: words[1:], properties: map[string][]string{}}
		for _, part := range parts[1:] {
			property := strings.Fields(part)
			r.properties[property[0]] = property[1:]
		}
		name := strings.TrimSuffix(words[0], "!")
		r.once = name != words[0]
		all[name] = r
	}
	return all
}

// Refused returns what CoreDNS refuses in the blocks. It does not judge placeholders and imports. isUnknown reports
// whether a plugin without a row is missing in the build of the cluster.
func Refused(blocks []Block, isUnknown func(hasSimilar bool) bool) (problems []Problem) {
	all := rules()
	names := strings.Fields(otherPlugins)
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, b := range blocks {
		seen := map[string]bool{}
		for _, d := range b.Directives {
			r, ok := all[d.Name]
			suggestion := excerpt.DidYouMean(d.Name, "", names)
			isRemoved := slices.Contains(strings.Fields(removedPlugins), d.Name) || strings.ContainsAny(d.Name, ".:{")
			switch {
			case ok && seen[d.Name] && r.once:
				problems = append(problems, Problem{d.Line, fmt.Sprintf("the plugin %s is twice in a block", d.Name), d.File})
			case ok:
				problems = append(problems, r.check(d)...)
			case slices.Contains(names, d.Name) || !isRemoved && !isUnknown(suggestion != ""):
			default:
				problems = append(problems, Problem{d.Line, fmt.Sprintf("unknown plugin %q%s", d.Name, suggestion), d.File})
			}
			seen[d.Name] = true
		}
	}
	return problems
}

// check returns the problems of a stanza of a plugin.
func (r rule) check(d Directive) (problems []Problem) {
	add := func(d Directive, problem string) {
		if problem != "" && !d.HasPlaceholder() {
			problems = append(problems, Problem{d.Line, fmt.Sprintf("%s: %s", d.Name, problem), d.File})
		}
	}
	_, open := r.properties["..."]
	if !open || len(d.Body) == 0 {
		add(d, checkArgs(r.args, d.Args))
	}
	if d.Name == "rewrite" {
		if _, problem := parseRewrite(d); !slices.ContainsFunc(d.Body, Directive.HasPlaceholder) {
			add(d, problem)
		}
		return problems
	}
	for _, property := range d.Body {
		args, ok := r.properties[property.Name]
		switch {
		case ok:
			add(property, checkArgs(args, property.Args))
		case property.Name != "import" && !open:
			add(property, "unknown property of "+d.Name)
		}
		open = open && (d.Name != "hosts" || property.Name != "fallthrough") // entries after it are properties
	}
	if len(problems) == 0 {
		add(d, checkTogether(d))
	}
	return problems
}

// checkTogether returns why CoreDNS refuses a stanza whose parts are valid; "": it does not.
func checkTogether(d Directive) string {
	switch d.Name {
	case "loadbalance":
		if len(d.Args) > 0 && (d.Args[0] == "weighted") != (len(d.Args) == 2) {
			return "want a file after weighted, and none after round_robin"
		}
	case "kubernetes":
		if len(find(d.Body, "namespaces"))*len(find(d.Body, "namespace_labels")) > 0 {
			return "namespaces and namespace_labels cannot be both"
		}
		for _, m := range find(d.Body, "multicluster") {
			isOther := func(z string) bool {
				return !slices.ContainsFunc(d.Args, func(own string) bool {
					return strings.EqualFold(strings.TrimSuffix(z, "."), strings.TrimSuffix(own, "."))
				})
			}
			if len(d.Args) > 0 && slices.ContainsFunc(m.Args, isOther) {
				return "the zones of multicluster are not among those of kubernetes"
			}
		}
	}
	return ""
}

// HasPlaceholder reports whether CoreDNS or an installer replaces a part of a line.
func (d Directive) HasPlaceholder() bool {
	text := d.String()
	return strings.Contains(text, "{$") || strings.Contains(text, "{%") || strings.Contains(text, "__")
}

// checkArgs returns why CoreDNS refuses arguments; "": it does not.
func checkArgs(kinds, args []string) string {
	for i, kind := range kinds {
		kind, optional := strings.CutPrefix(kind, "[")
		switch {
		case kind == "*":
			return ""
		case len(args) <= i && optional:
			return ""
		case len(args) <= i:
			return "an argument is missing"
		}
		kind, many := strings.CutSuffix(strings.TrimSuffix(kind, "]"), "+")
		last := i + 1
		if many {
			last = len(args)
		}
		for _, arg := range args[i:last] {
			if problem := checkKind(kind, arg); problem != "" {
				return fmt.Sprintf("%q: %s", arg, problem)
			}
		}
		if many {
			return ""
		}
	}
	if len(args) > len(kinds) {
		return fmt.Sprintf("%q: too many arguments", args[len(kinds)])
	}
	return ""
}

// checkKind returns why CoreDNS refuses an argument; "": it does not.
func checkKind(kind, arg string) string {
	var err error
	ok := true
	name, limits, _ := strings.Cut(kind, ":")
	switch name {
	case "int":
		err = checkInt(limits, arg)
	case "percent":
		err = checkInt("10-90", strings.TrimSuffix(arg, "%"))
	case "ttl":
		n, notNumber := strconv.Atoi(arg)
		ok = notNumber != nil || n > 0
	case "duration":
		low, high, _ := strings.Cut(limits, "-")
		least, _ := time.ParseDuration(low)
		var d time.Duration
		d, err = time.ParseDuration(arg)
		most, noLimit := time.ParseDuration(high)
		ok = err != nil || d >= least && (noLimit != nil || d <= most)
	case "server":
		scheme, _, hasScheme := strings.Cut(arg, "://")
		ok = !strings.Contains(arg, ",") && (!hasScheme || slices.Contains([]string{"dns", "tls", "https", "quic"}, scheme))
	case "address":
		_, _, err = net.SplitHostPort(arg)
	case "regexp":
		_, err = regexp.Compile(arg)
	case "rcode":
		_, ok = dns.StringToRcode[strings.ToUpper(arg)]
	case "type":
		_, ok = dns.StringToType[arg]
	case "class":
		_, ok = dns.StringToClass[arg]
	case "any", "":
	default:
		ok = slices.Contains(strings.Split(strings.TrimPrefix(kind, "="), "|"), arg)
	}
	switch {
	case err != nil:
		return err.Error()
	case !ok:
		return "not a valid " + strings.TrimPrefix(kind, "=")
	}
	return ""
}

// checkInt parses a number with limits of the form LOW-HIGH, each of which may be missing.
func checkInt(limits, arg string) error {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return fmt.Errorf("want a number")
	}
	low, high, _ := strings.Cut(limits, "-")
	if least, err := strconv.Atoi(low); err == nil && n < least {
		return fmt.Errorf("want at least %d", least)
	}
	if most, err := strconv.Atoi(high); err == nil && n > most {
		return fmt.Errorf("want at most %d", most)
	}
	return nil
}

// DuplicateZones returns the blocks with the zone, port and addresses of an earlier one, or without a valid port.
func DuplicateZones(blocks []Block) (problems []Problem) {
	first := map[string]int{}
	for _, b := range blocks {
		bind := ""
		for _, d := range b.Find("bind") {
			bind += " " + strings.Join(d.Args, " ")
		}
		for _, key := range b.Keys {
			zone, port := SplitKey(key)
			if _, err := strconv.ParseUint(port, 10, 16); err != nil && !(Directive{Name: key}).HasPlaceholder() {
				problems = append(problems, Problem{b.Line, "the port of " + key + " is not a number", b.File})
			}
			scheme, _, _ := strings.Cut(key, "://")
			id := fmt.Sprint(scheme == "tls" || scheme == "https" || scheme == "quic", zone, port, bind)
			if line, ok := first[id]; ok {
				problems = append(problems, Problem{b.Line,
					fmt.Sprintf("the zone %s is already in the block of line %d", key, line), b.File})
			}
			first[id] = b.Line
		}
	}
	return problems
}
