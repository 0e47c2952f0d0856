// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

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
			Name: q.Name, Type: dns.Type(q.Type).String(), Server: q.Server.String(), Rcode: rcode(q), Answers: answers(q),
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
		NotAsked: r.notAsked, Synthetic: texts(r.syntheticAddresses()), Absences: absences,
	}
}

// syntheticAddresses returns the addresses in the replies that the cluster DNS has
// generated. Server has assigned its addresses, whichever they are.
func (r *Result) syntheticAddresses() []netip.Addr {
	if r.server != "" {
		return nil
	}
	return r.synthetic()
}

// rcode returns the rcode of the reply, or the reason for its absence.
func rcode(q libc.Query) string {
	if q.Reply != nil {
		name := dns.RcodeToString[q.Reply.Rcode]
		if name == "" {
			name = fmt.Sprintf("RCODE%d", q.Reply.Rcode)
		}
		return name
	}
	for _, known := range []error{errNotAsked, errUnknown, libc.ErrTimeout, libc.ErrOvertaken, libc.ErrMalformed} {
		if errors.Is(q.Err, known) {
			return known.Error()
		}
	}
	return "unreachable"
}

// answers returns the answer section in presentation format. It is never nil.
func answers(q libc.Query) []string {
	list := []string{}
	if q.Reply != nil {
		for _, rr := range q.Reply.Answer {
			list = append(list, presentation(rr))
		}
	}
	return list
}

// presentation returns a record in presentation format, separated by spaces.
func presentation(rr dns.RR) string { return strings.ReplaceAll(rr.String(), "\t", " ") }

func texts[T fmt.Stringer](values []T) []string {
	list := make([]string, 0, len(values))
	for _, v := range values {
		list = append(list, v.String())
	}
	return list
}
