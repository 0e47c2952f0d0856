// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"embed"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// directives has what CoreDNS v1.15.0 reads, and what becomes of it here: a line for each plugin, then one for each property
// in its braces.
//
// A line begins with the name and the arguments, as the setup functions of CoreDNS read them. A plugin with ! has one stanza in
// a block. The kinds of arguments are those of checkKind; [ ] is optional, * is any number of any words, + is one or more. A
// plugin with ... has further properties. Of "* ..." only the name is checked.
//
// After " = " is what becomes of it: nothing if the server always does the same; ! marks what changes answers. Without " = " the
// converter has a function for it, or refuses it: fewer than one in fifty Corefiles have it.
//
//go:embed directives.txt
var directives embed.FS

// removedPlugins are plugins of earlier versions, which no build has.
const removedPlugins = "federation proxy reverse"

// rule is what the table has of a plugin or of a property.
type rule struct {
	once, open bool // one stanza in a block; properties without a row
	args       []string
	properties rules

	explained bool
	changes   bool   // answers
	text      string // "": nothing to explain
}

// rules are rows of the table by their names.
type rules map[string]rule

// readRules returns the table of plugins.
func readRules() rules {
	table, err := directives.ReadFile("directives.txt")
	if err != nil {
		panic(err) // it is in the binary
	}
	all := rules{}
	var plugin rule
	for line := range strings.Lines(string(table)) {
		syntax, fate, explained := strings.Cut(strings.TrimSpace(line)+" ", " = ")
		words := strings.Fields(syntax)
		name, once := strings.CutSuffix(words[0], "!")
		r := rule{once: once, open: words[len(words)-1] == "...", properties: rules{}, explained: explained}
		r.args = slices.DeleteFunc(words[1:], func(word string) bool { return word == "..." })
		r.text, r.changes = strings.CutPrefix(strings.TrimSpace(fate), "! ")
		if strings.HasPrefix(line, " ") {
			plugin.properties[name] = r
			continue
		}
		all[name], plugin = r, r
	}
	return all
}

// find returns the rule of a key: PLUGIN, or PLUGIN PROPERTY.
func (all rules) find(key string) rule {
	name, property, isProperty := strings.Cut(key, " ")
	if isProperty {
		return all[name].properties[property]
	}
	return all[name]
}

// Refused returns what CoreDNS refuses in the blocks. It does not judge placeholders and imports. isUnknown reports
// whether a plugin without a row is missing in the build of the cluster.
func Refused(blocks []Block, isUnknown func(hasSimilar bool) bool) (problems []Problem) {
	all := readRules()
	names := slices.Sorted(maps.Keys(all))
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
			case isRemoved || isUnknown(suggestion != ""):
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
	open := r.open
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
		p, ok := r.properties[property.Name]
		switch {
		case !ok && property.Name != "import" && !open:
			add(property, "unknown property of "+d.Name)
		case !ok:
		case d.Name == "acl":
			_, problem := aclRule(property)
			add(property, problem)
		default:
			add(property, checkArgs(p.args, property.Args))
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
	case "network":
		_, err = netip.ParsePrefix(arg)
	case "template":
		ok = strings.Count(arg, "{{") == strings.Count(arg, "}}")
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
