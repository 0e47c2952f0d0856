// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Result is a lookup that was run.
type Result struct {
	question Question
	pod      string        // NAMESPACE/NAME
	at       kube.Location // of pod in the manifests
	policy   policy.Policy // instead of the pod's own; "": the pod's own
	file     string        // the pod's resolv.conf
	ignored  []string      // what the library ignores in file
	lost     time.Duration // of libc.Simulator.LostQuery
	outcome

	server   string            // which received all queries; "": cluster did
	cluster  []netip.Addr      // the cluster DNS with the names of the manifests
	upstream []upstream.Server // of cluster
}

// Found reports whether the program is known to receive an address or a record.
func (r *Result) Found() bool { return r.Error == "" && r.open == "" }

// Ignored returns the lines of the pod's resolv.conf that the library ignores or changes.
func (r *Result) Ignored() []string { return r.ignored }

// WriteJSON writes a v1alpha1.LookupResult on one line.
func (r *Result) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r.lookupResult()) }

func (r *Result) lookupResult() v1alpha1.LookupResult {
	queries := make([]v1alpha1.LookupQuery, 0, len(r.Queries))
	for _, q := range r.Queries {
		row := v1alpha1.LookupQuery{
			Name: q.Name, Type: dns.Type(q.Type).String(), Rcode: rcode(q), Answers: []string{},
			Server: cmp.Or(r.server, q.Server.String()), ExtendedErrors: extendedErrors(q),
		}
		if q.Reply != nil {
			row.Answers = append(row.Answers, presentations(q.Reply.Answer)...)
		}
		if r.measured() {
			row.Micros = q.Took.Microseconds()
		}
		queries = append(queries, row)
	}
	var absences []v1alpha1.LookupAbsence
	for _, a := range r.absences {
		absences = append(absences, v1alpha1.LookupAbsence{Name: a.name, Reason: a.reason, Unknown: a.unknown})
	}
	return v1alpha1.LookupResult{
		File: r.at.File, Document: r.at.Document,
		Pod: r.pod, Name: r.question.Name, Type: r.question.typeName(), Libc: string(r.question.Library),
		Queries: queries, Addresses: texts(r.Addresses), QueryCount: len(queries),
		NotAsked: r.notAsked, Synthetic: texts(r.synthetic()), Absences: absences,
	}
}

// rcode returns the rcode of the reply, or the reason for its absence.
func rcode(q libc.Query) string {
	if q.Reply != nil {
		return cmp.Or(dns.RcodeToString[q.Reply.Rcode], fmt.Sprintf("RCODE%d", q.Reply.Rcode))
	}
	for _, known := range []error{errNotAsked, errUnknown, libc.ErrTimeout, libc.ErrOvertaken, libc.ErrMalformed} {
		if errors.Is(q.Err, known) {
			return known.Error()
		}
	}
	return "unreachable"
}

// extendedErrors returns the extended DNS errors of the reply, with the texts quoted: any server can send them.
func extendedErrors(q libc.Query) (list []string) {
	if q.Reply == nil || q.Reply.IsEdns0() == nil {
		return nil
	}
	for _, option := range q.Reply.IsEdns0().Option {
		if e, ok := option.(*dns.EDNS0_EDE); ok {
			text := fmt.Sprintf("%d %s: %q", e.InfoCode, dns.ExtendedErrorCodeToString[e.InfoCode], e.ExtraText)
			list = append(list, strings.TrimSuffix(text, `: ""`))
		}
	}
	return list
}

// presentations returns records in presentation format, separated by spaces.
func presentations(records []dns.RR) (list []string) {
	for _, rr := range records {
		list = append(list, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return list
}

func texts[T fmt.Stringer](values []T) []string {
	list := make([]string, 0, len(values))
	for _, v := range values {
		list = append(list, v.String())
	}
	return list
}

// WriteText writes the pod's resolv.conf, a table of the queries, and the result.
func (r *Result) WriteText(w io.Writer) error {
	preposition := "in"
	if r.pod == machineName {
		preposition = "on"
	}
	fmt.Fprintf(w, "# %s %s %s looks up %s %s\n%s# %s\n",
		r.question.Library, preposition, r.pod, r.question.Name, r.question.typeName(), r.file, r.servers())
	var table strings.Builder
	tabs := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for i, q := range r.Queries {
		r.writeQuery(tabs, i+1, q)
	}
	tabs.Flush() // a Builder returns no errors
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	lines := r.resultLines()
	for _, remark := range append([]string{r.total()}, r.remarks()...) {
		lines = append(lines, "# "+remark)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// writeQuery writes a row of the table. The time is measured if there is a real server.
func (r *Result) writeQuery(w io.Writer, n int, q libc.Query) {
	network := ""
	if q.TCP {
		network = " tcp"
	}
	took := ""
	if r.measured() {
		if took = "\t"; !errors.Is(q.Err, errNotAsked) && !errors.Is(q.Err, errUnknown) {
			took = fmt.Sprintf("%.1f ms\t", float64(q.Took.Microseconds())/1000)
		}
	}
	server := cmp.Or(r.server, q.Server.String())
	fmt.Fprintf(w, "%d\t%s\t%s\t%s%s\t%s\t%s%s\n", n, q.Name, dns.Type(q.Type), server, network, rcode(q), took, answerData(q))
}

// measured reports whether queries were sent to servers. The time of a simulated reply says
// nothing, and differs in each run.
func (r *Result) measured() bool { return r.server != "" || len(r.upstream) > 0 }

// answerData returns the answer section without owner names, TTLs, and the type that was
// asked for.
func answerData(q libc.Query) string {
	if q.Reply == nil || q.Reply.Rcode != dns.RcodeSuccess {
		return ""
	}
	if len(q.Reply.Answer) == 0 {
		return "no such record"
	}
	var list []string
	for _, rr := range q.Reply.Answer {
		data := strings.TrimPrefix(rr.String(), rr.Header().String())
		if t := rr.Header().Rrtype; t != q.Type {
			data = dns.Type(t).String() + " " + data
		}
		list = append(list, data)
	}
	return strings.Join(list, ", ")
}

// servers returns the line about the servers that received the queries.
func (r *Result) servers() string {
	switch {
	case r.server != "":
		return "all nameservers replaced by " + r.server
	case len(r.cluster) == 0:
		return "the node has no cluster DNS"
	case len(r.upstream) > 0:
		return fmt.Sprintf("cluster DNS %s simulated from the manifests, upstream %s", join(r.cluster), join(r.upstream))
	}
	return fmt.Sprintf("cluster DNS %s simulated from the manifests", join(r.cluster))
}

// resultLines returns the lines with the program's result.
func (r *Result) resultLines() []string {
	if r.open != "" {
		if i := slices.IndexFunc(r.absences, r.isOpen); i >= 0 {
			return []string{"unknown: " + r.open + ": " + r.absences[i].reason}
		}
		return []string{"unknown: " + r.open + " was not asked for"}
	}
	if r.Error != "" {
		return []string{string(r.Error) + ": " + r.question.Library.Text(r.Error)}
	}
	return append(texts(r.Addresses), presentations(r.Answers)...)
}

// remarks returns the lines about the assumptions of the result.
func (r *Result) remarks() (list []string) {
	if r.open != "" && r.openQueries > len(r.Queries) {
		list = append(list, fmt.Sprintf("%s if %s does not exist", count(r.openQueries), r.open))
	}
	for i, q := range r.Queries {
		for _, e := range extendedErrors(q) {
			list = append(list, fmt.Sprintf("extended error of reply %d: %s", i+1, e))
		}
	}
	if len(r.assumed) > 0 {
		list = append(list, "assumed not to exist: "+strings.Join(r.assumed, ", "))
	}
	if problem := r.problem(); problem != "" {
		list = append(list, problem)
	}
	if reverse, err := dns.ReverseAddr(r.question.Name); err == nil && r.question.Type == dns.TypePTR {
		list = append(list, "the PTR record of an address has another name: look up "+reverse)
	}
	for _, a := range r.absences {
		if !r.isOpen(a) {
			list = append(list, a.name+": "+a.reason)
		}
	}
	if slices.ContainsFunc(r.absences, func(a absence) bool { return a.unknown }) {
		list = append(list, "set --complete if the manifests are the whole cluster")
	}
	if why := r.unasked(); why != "" {
		list = append(list, "not asked, "+why)
	}
	if synthetic := r.synthetic(); len(synthetic) > 0 {
		list = append(list, "synthetic, not in the manifests: "+join(synthetic))
	}
	return list
}

func count(n int) string {
	if n == 1 {
		return "1 query"
	}
	return fmt.Sprintf("%d queries", n)
}

// unasked returns why a server was not asked and what to do, or "" if all were.
func (r *Result) unasked() string {
	var others []netip.Addr
	for _, q := range r.Queries {
		if errors.Is(q.Err, errNotAsked) && !slices.Contains(r.cluster, q.Server) {
			others = appendNew(others, q.Server)
		}
	}
	switch {
	case len(others) > 0:
		return "not the cluster DNS: " + join(others) + ": set --server to replace it"
	case r.forwarded > 0 && len(r.upstream) == 0:
		return "no upstream server: set --upstream or --server"
	}
	return ""
}

func (r *Result) isOpen(a absence) bool { return a.unknown && strings.EqualFold(a.name, r.open) }

// total returns the number of queries, how long the lookup took, and how much longer with a lost query.
func (r *Result) total() string {
	text := count(len(r.Queries))
	if len(r.Queries) == 0 {
		return text
	}
	if r.measured() {
		text += fmt.Sprintf(" in %.1f ms", float64(r.Took.Microseconds())/1000)
	}
	if r.lost > 0 {
		text += fmt.Sprintf("; a lost one costs %g s", r.lost.Seconds())
	}
	return text
}

func join[T fmt.Stringer](values []T) string { return strings.Join(texts(values), ", ") }

// problem returns why no library queries the name. "": it is a valid name, or was queried.
func (r *Result) problem() string {
	q := r.question
	labels := strings.Split(strings.TrimSuffix(q.Name, "."), ".")
	long := slices.IndexFunc(labels, func(label string) bool { return len(label) > maxLabel })
	_, notAddress := netip.ParseAddr(q.Name)
	switch {
	case r.Error == "" || len(r.Queries) > 0 || notAddress == nil: // an address of the other family
	case strings.Contains(q.Name, "://"):
		return "a URL is not a name: look up its host"
	case strings.Contains(q.Name, ":"):
		return "a name has no port: look up the part before the colon"
	case long >= 0:
		return fmt.Sprintf("label %d has %d characters, %d is the limit", long+1, len(labels[long]), maxLabel)
	case q.Name == "":
		return "the name is empty"
	case slices.Contains(labels, ""):
		return "a label is empty"
	case len(q.Name) > maxName:
		return fmt.Sprintf("the name has %d characters, %d is the limit", len(q.Name), maxName)
	case q.Type == dns.TypeNone && notHostName.MatchString(q.Name):
		return "not a host name: getaddrinfo queries letters, digits, '-', '_' and '.' only"
	}
	return ""
}

// Limits of names in text, in characters (RFC 1035 section 2.3.4).
const (
	maxLabel = 63
	maxName  = 253
)

var notHostName = regexp.MustCompile(`[^a-zA-Z0-9._-]`)
