// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func (h *Handler) validate(ctx context.Context, q request) (answer, error) {
	w, known, err := kube.ParseAdmissionObject(q.apiVersion(), q.Kind.Kind, q.Object)
	if !known || err != nil {
		return answer{verdict: verdictPassed}, err
	}
	o := admission.Object{Kind: w.Kind, Name: w.Name, Operation: q.Operation, Pod: kube.FromPod(w.Pod), Ordinal: w.Ordinals.Base != ""}
	o.Pod.Path, o.Pod.Namespace = w.Path, cmp.Or(o.Pod.Namespace, q.Namespace)
	rules := h.rules.Load()
	findings, err := rules.Check(ctx, o)
	if err != nil {
		return answer{}, err
	}
	return newAnswer(o, rules.report.Filter(findings, w.Annotations, w.Pod.Annotations)), nil
}

func newAnswer(o admission.Object, findings []policy.Finding) answer {
	v := admission.NewVerdict(o, findings)
	a := answer{verdict: verdictAllowed, denied: printable(v.Denied)}
	a.warnings = warnings(v.Warnings, maxReply-envelope-encodedLen(a.denied))
	for _, f := range findings {
		a.findings = append(a.findings, f.Code)
	}
	switch {
	case a.denied != "":
		a.verdict = verdictDenied
	case a.warnings != nil:
		a.verdict = verdictWarned
	}
	return a
}

// maxCodes is the size in bytes of the codes in a line of the log. With the kind, the
// namespace and the name, each cut to excerpt.MaxValue, a line of a valid object has at most
// 1 KiB.
const maxCodes = 400

// countCodes returns the distinct codes in the order of their first occurrence, with their
// numbers, such as "unsafe-value:100 unknown-option".
func countCodes(codes []policy.Code) string {
	count := map[policy.Code]int{}
	var distinct []policy.Code
	for _, c := range codes {
		if count[c]++; count[c] == 1 {
			distinct = append(distinct, c)
		}
	}
	text := make([]string, len(distinct))
	for i, c := range distinct {
		text[i] = string(c)
		if n := count[c]; n > 1 {
			text[i] += ":" + strconv.Itoa(n)
		}
	}
	return excerpt.Text(strings.Join(text, " "), maxCodes)
}

// maxWarnings is the number of characters of all warnings. If they have more, the API server cuts each at
// 256 characters and drops those that do not fit (apiserver/pkg/endpoints/filters/warning.go).
const maxWarnings = 4096

// warnings returns the sentences as warnings. Those beyond maxWarnings, or beyond room, which is in bytes
// of JSON, are replaced by one with their number.
func warnings(sentences []string, room int) []string {
	var all []string
	total, fitting := 0, 0 // characters, and the warnings that leave room for leftOut
	last := leftOut(len(sentences))
	for i, s := range sentences {
		s = printable(s)
		all = append(all, s)
		total += utf8.RuneCountInString(s)
		room -= encodedLen(s)
		if total+utf8.RuneCountInString(last) <= maxWarnings && encodedLen(last) <= room {
			fitting = i + 1
		}
	}
	if total <= maxWarnings && room >= 0 {
		return all
	}
	return append(all[:fitting], leftOut(len(sentences)-fitting))
}

func leftOut(n int) string {
	return fmt.Sprintf("warnings left out: %d; dnsconfigurer validate prints all", n)
}

// printable replaces the characters for which the API server would drop a warning
// (net.NewWarningHeader).
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

const reviewKind = "AdmissionReview"

// review is the part of an AdmissionReview that is read. The user is not.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request `json:"request"`
}

type request struct {
	UID         types.UID               `json:"uid"`
	Kind        metav1.GroupVersionKind `json:"kind"`
	SubResource string                  `json:"subResource"`
	Namespace   string                  `json:"namespace"`
	Name        string                  `json:"name"` // "" before it is generated
	Operation   admission.Operation     `json:"operation"`
	DryRun      bool                    `json:"dryRun"`
	Object      json.RawMessage         `json:"object"`
}

func parseReview(body []byte) (request, error) {
	var r review
	if err := document.DecodeLarge(body, &r); err != nil {
		return request{}, fmt.Errorf("reading the review: %w", err)
	}
	switch {
	case r.APIVersion != admissionv1.SchemeGroupVersion.String() || r.Kind != reviewKind:
		return request{}, fmt.Errorf("kind %q of %q: want %s of %s", r.Kind, r.APIVersion, reviewKind, admissionv1.SchemeGroupVersion)
	case r.Request == nil:
		return request{}, errors.New("the review has no request")
	case r.Request.UID == "":
		return request{}, errors.New("the request has no uid")
	}
	return *r.Request, nil
}

func (q *request) apiVersion() string {
	return metav1.GroupVersion{Group: q.Kind.Group, Version: q.Kind.Version}.String()
}

func (q *request) operation() string {
	if slices.Contains([]admission.Operation{admission.Create, admission.Update}, q.Operation) {
		return string(q.Operation)
	}
	return operationOther
}

// answer is the response to a request. The zero value allows the object.
type answer struct {
	verdict  verdict
	findings []policy.Code
	denied   string // the reason; "": it is allowed
	warnings []string
	patch    []byte
}

// maxReply is the size in bytes of the longest reply without a patch. A denial comes first: it
// has at most 4 KiB, which the quotes in it may double. The warnings have what it leaves.
const maxReply = 8 << 10

// envelope is the size in bytes of a reply without its texts. With a UID of an API server,
// which has 36 bytes, it is below 250.
const envelope = 512

// encode returns the AdmissionReview with the response to q.
func (a *answer) encode(q request) ([]byte, error) {
	r := &admissionv1.AdmissionResponse{UID: q.UID, Allowed: a.denied == "", Warnings: a.warnings}
	if a.denied != "" {
		// As in responses of the API server and its admission policies.
		r.Result = &metav1.Status{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: a.denied}
	}
	if a.patch != nil {
		r.Patch, r.PatchType = a.patch, new(admissionv1.PatchTypeJSONPatch)
	}
	return encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: reviewKind},
		Response: r,
	})
}

// encode returns v in JSON, and a newline. It does not escape the characters of HTML: each would
// take six bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// encodedLen returns the size in bytes of a text in a reply, with its quotes and a comma.
func encodedLen(s string) int {
	b, _ := encode(s) // text can always be encoded
	return len(b)
}

// originAnnotation marks a policy annotation that was added by admission.
const (
	originAnnotation = "dnsconfigurer.dev/policy-from"
	originDNSPolicy  = "dnsPolicy"
)

// mutate is deploy/autopath/policy.yaml for API servers without mutating admission policies.
// The two must have the same result, so that objects do not change when a cluster switches
// from one to the other. It replaces dnsPolicy ClusterFirstWithAutopath, in upper or lower
// case, by ClusterFirstWithHostNet and two annotations. It removes the annotations from an
// object with another policy. An update of a pod has the same result as its creation, so the
// API server finds no change. docs/dns.md has the reasons.
func (h *Handler) mutate(_ context.Context, q request) (answer, error) {
	w, known, err := kube.ParseAdmissionObject(q.apiVersion(), q.Kind.Kind, q.Object)
	if !known || err != nil {
		return answer{verdict: verdictPassed}, err
	}
	at := "/" + strings.ReplaceAll(w.Path, ".", "/") // ends with a slash
	pod, autopath := w.Pod, policy.Policy(w.Pod.Spec.DNSPolicy).IsAutopath()
	_, added := pod.Annotations[originAnnotation]
	var patch []operation
	switch windows := kube.IsWindows(&pod.Spec); {
	case autopath && !windows:
		patch = []operation{{"replace", at + "spec/dnsPolicy", corev1.DNSClusterFirstWithHostNet}}
		if _, set := pod.Annotations[policy.OverrideAnnotation]; !set { // the author's annotation has precedence
			if !has(q.Object, strings.Split(at+"metadata", "/")) {
				patch = append(patch, operation{"add", at + "metadata", struct{}{}})
			}
			if pod.Annotations == nil {
				patch = append(patch, operation{"add", at + "metadata/annotations", struct{}{}})
			}
			patch = append(patch, operation{"add", annotation(at, policy.OverrideAnnotation), policy.ClusterFirstWithAutopath},
				operation{"add", annotation(at, originAnnotation), originDNSPolicy})
		}
	case added && !autopath && pod.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet:
		if pod.Annotations[policy.OverrideAnnotation] == string(policy.ClusterFirstWithAutopath) {
			patch = []operation{{Op: "remove", Path: annotation(at, policy.OverrideAnnotation)}}
		}
		patch = append(patch, operation{Op: "remove", Path: annotation(at, originAnnotation)})
	default:
		return answer{verdict: verdictPassed}, nil
	}
	a := answer{verdict: verdictPatched}
	a.patch, err = json.Marshal(patch)
	return a, err
}

// annotation returns the JSON Pointer of an annotation (RFC 6901; section 3 has the escape).
func annotation(at, key string) string {
	return at + "metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
}

// operation is an operation of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// has reports whether the object js has a value at a path. It ignores empty steps.
func has(js []byte, steps []string) bool {
	for _, step := range steps {
		if step == "" {
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(js, &object) != nil {
			return false
		}
		js = object[step]
	}
	return len(js) > 0 && string(js) != "null"
}
