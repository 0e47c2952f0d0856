// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

func newHandler(t testing.TB, metrics prometheus.Registerer) *webhook.Handler {
	return webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t), Register: metrics})
}

// newReview returns the review of an object, as the API server encodes it.
func newReview(t testing.TB, operation string, object []byte) []byte {
	t.Helper()
	var o struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
	}
	must.Succeed(t, json.Unmarshal(object, &o))
	gvk := o.GroupVersionKind()
	kind := metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
	text := must.Get(json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5", Kind: kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
			Operation: admissionv1.Operation(operation), DryRun: new(true), Object: runtime.RawExtension{Raw: object},
		},
	}))(t)
	return text
}

func post(h http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// parseResponse parses a response, and fails the test if the API server would reject it.
func parseResponse(t testing.TB, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	t.Helper()
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %q: %v", w.Code, w.Header(), w.Body, err)
	}
	if r.APIVersion != "admission.k8s.io/v1" || r.Kind != "AdmissionReview" || r.Request != nil || r.Response == nil {
		t.Fatalf("invalid response: %s", w.Body)
	}
	return r.Response
}

// TestHandler_Vectors compares the response to each vector with the verdict and the messages
// of its findings.
func TestHandler_Vectors(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	for _, v := range table {
		t.Run(v.Name, func(t *testing.T) {
			h := webhook.New(webhook.Config{Rules: v.Node.Rules(t)})
			checkVector(t, v, parseResponse(t, post(h, webhook.PathValidate, newReview(t, v.Operation, v.Object))))
		})
	}
}

func checkVector(t *testing.T, v vectors.Vector, got *admissionv1.AdmissionResponse) {
	t.Helper()
	if got.UID != "705ab4f5" || verb(got) != v.Admission && v.APIServer != "refuses" {
		t.Errorf("%s, want %s: %+v", verb(got), v.Admission, got)
	}
	if v.Admission == "allows" {
		return // a finding about the node is not for the author of the pod
	}
	text := strings.Join(got.Warnings, " ")
	if !got.Allowed {
		text += got.Result.Message
		if got.Result.Code != http.StatusUnprocessableEntity || got.Result.Reason != metav1.StatusReasonInvalid {
			t.Errorf("denied as %+v", got.Result)
		}
	}
	for _, f := range v.Findings {
		if f.EnforcedBy != "apiserver" && !strings.Contains(text, f.Message) {
			t.Errorf("got %q, want %q in it", text, f.Message)
		}
	}
}

// verb returns the verdict as in the vectors.
func verb(r *admissionv1.AdmissionResponse) string {
	switch {
	case !r.Allowed:
		return "denies"
	case r.Warnings != nil:
		return "warns"
	default:
		return "allows"
	}
}

// TestHandler_Requests: every request gets a valid response or an HTTP error.
func TestHandler_Requests(t *testing.T) {
	const long = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a-name-of-forty-characters-0123456789-abc",` +
		`"namespace":"payments"},"spec":{"subdomain":"checkout","setHostnameAsFQDN":true}}`
	review := func(request string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":` + request + `}`
	}
	ask := func(fields string) string {
		return review(`{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","object":` + long + fields + `}`)
	}
	padded := func(size int) string { text := ask(""); return text + strings.Repeat(" ", size-len(text)) }
	for _, tt := range []struct {
		name, body string
		code       int
		want       string // "denied", "allowed", or in the error
	}{
		{"a pod that would not start", ask(""), 200, "denied"},
		{"its update", ask(`,"operation":"UPDATE"`), 200, "allowed"},
		{"its deletion", ask(`,"operation":"DELETE"`), 200, "allowed"},
		{"its status", ask(`,"subResource":"status"`), 200, "allowed"},
		{"no object", review(`{"uid":"u","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE"}`), 200, "allowed"},
		{"null", ask(`,"object":null`), 200, "allowed"},
		{"another kind", ask(`,"kind":{"group":"","version":"v1","kind":"Service"}`), 200, "allowed"},
		{"an unsupported version", ask(`,"kind":{"group":"apps","version":"v2","kind":"Deployment"}`), 200, "allowed"},
		{"an object that is a list", ask(`,"object":[1]`), 200, "allowed"},
		{"a field of another type", ask(`,"object":{"metadata":{"name":"web"},"spec":{"dnsConfig":7}}`), 200, "allowed"},
		{"fields of a newer API",
			ask(`,"object":` + strings.Replace(long, `"spec":{`, `"spec":{"containers":7,"dns":{"new":1},`, 1)), 200, "denied"},
		{"a namespace in the request only",
			ask(`,"namespace":"payments","object":` + strings.Replace(long, `,"namespace":"payments"`, "", 1)), 200, "denied"},
		{"a body at the limit", padded(webhook.MaxBody), 200, "denied"},
		{"a body beyond it", padded(webhook.MaxBody + 1), 413, "more than 12582912 bytes"},
		{"v1beta1", strings.Replace(ask(""), "k8s.io/v1", "k8s.io/v1beta1", 1), 400,
			`of "admission.k8s.io/v1beta1": want AdmissionReview of admission.k8s.io/v1`},
		{"another document", `{"apiVersion":"v1","kind":"Pod"}`, 400, `kind "Pod" of "v1"`},
		{"no request", review("null"), 400, "no request"},
		{"no uid", review("{}"), 400, "no uid"},
		{"a uid that is a number", review(`{"uid":5}`), 400, "request.uid: is a number, must be a string"},
		{"nothing", "", 400, "reading the review"},
		{"not JSON", "apiVersion: v1", 400, "reading the review"},
		{"half a review", ask("")[:300], 400, "reading the review"},
		{"binary", "\x00\xff\xfe", 400, "reading the review"},
		{"deep nesting", ask(`,"options":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), 400, "exceeded max depth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := post(newHandler(t, nil), webhook.PathValidate, []byte(tt.body))
			if tt.code != http.StatusOK {
				if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
					t.Errorf("%d %s, want %d, %s", w.Code, w.Body, tt.code, tt.want)
				}
				return
			}
			if got := parseResponse(t, w); got.UID != "u" || got.Allowed != (tt.want == "allowed") {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
}

func TestHandler_Protocol(t *testing.T) {
	for _, tt := range []struct {
		method, path, contentType string
		want                      int
	}{
		{"POST", "/validate", "application/json; charset=utf-8", 400}, // an empty body
		{"GET", "/validate", "application/json", 405},
		{"POST", "/", "application/json", 404},
		{"POST", "/validate", "", 415},
		{"POST", "/mutate", "application/yaml", 415},
	} {
		r := httptest.NewRequest(tt.method, tt.path, http.NoBody)
		r.Header.Set("Content-Type", tt.contentType)
		w := httptest.NewRecorder()
		newHandler(t, nil).ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %s %q: %d, want %d", tt.method, tt.path, tt.contentType, w.Code, tt.want)
		}
	}
}

// TestHandler_Panic uses a handler without rules, which panics. The object is allowed, and
// the panic is counted.
func TestHandler_Panic(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := webhook.New(webhook.Config{Register: registry})
	body := newReview(t, "CREATE", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"}}`))
	if got := parseResponse(t, post(h, webhook.PathValidate, body)); !got.Allowed || got.UID != "705ab4f5" {
		t.Errorf("%+v", got)
	}
	want := `
# HELP dnsconfigurer_admission_requests_total Requests, by endpoint, operation, verdict and HTTP code.
# TYPE dnsconfigurer_admission_requests_total counter
dnsconfigurer_admission_requests_total{code="200",endpoint="mutate",operation="CREATE",verdict="panicked"} 0
dnsconfigurer_admission_requests_total{code="200",endpoint="mutate",operation="CREATE",verdict="unread"} 0
dnsconfigurer_admission_requests_total{code="200",endpoint="mutate",operation="UPDATE",verdict="panicked"} 0
dnsconfigurer_admission_requests_total{code="200",endpoint="mutate",operation="UPDATE",verdict="unread"} 0
dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="CREATE",verdict="panicked"} 1
dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="CREATE",verdict="unread"} 0
dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="UPDATE",verdict="panicked"} 0
dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="UPDATE",verdict="unread"} 0
dnsconfigurer_admission_requests_total{code="503",endpoint="mutate",operation="none",verdict="none"} 0
dnsconfigurer_admission_requests_total{code="503",endpoint="validate",operation="none",verdict="none"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dnsconfigurer_admission_requests_total"); err != nil {
		t.Error(err)
	}
}

// TestHandler_Mutate compares the patch of each kind, with and without annotations.
func TestHandler_Mutate(t *testing.T) {
	const (
		replaced  = `{"op":"replace","path":"%s/spec/dnsPolicy","value":"ClusterFirstWithHostNet"}`
		annotated = `{"op":"add","path":"%[1]s/metadata/annotations/dnsconfigurer.dev~1policy","value":"ClusterFirstWithAutopath"},` +
			`{"op":"add","path":"%[1]s/metadata/annotations/dnsconfigurer.dev~1policy-from","value":"dnsPolicy"}`
		removed = `{"op":"remove","path":"%s/metadata/annotations/dnsconfigurer.dev~1%s"}`
		parent  = `{"op":"add","path":"%s/metadata%s","value":{}}`

		autopath  = `"spec":{"dnsPolicy":"ClusterFirstWithAutopath"}`
		named     = `"metadata":{"name":"web"},`
		other     = `"metadata":{"annotations":{"a":"b"}},`
		byWebhook = `"annotations":{"dnsconfigurer.dev/policy":"%s","dnsconfigurer.dev/policy-from":"dnsPolicy"}`
	)
	text := fmt.Sprintf
	object := func(apiVersion, kind, rest string) string {
		return text(`{"apiVersion":%q,"kind":%q,%s}`, apiVersion, kind, rest)
	}
	pod := func(rest string) string { return object("v1", "Pod", rest) }
	workload := func(kind, template string) string {
		return object("apps/v1", kind, named+`"spec":{"template":{`+template+`}}`)
	}
	for _, tt := range []struct{ name, object, want string }{
		{"a pod", pod(named + autopath), text(replaced, "") + "," + text(parent, "", "/annotations") + "," + text(annotated, "")},
		{"the KEP's spelling, on the host's network, without a name yet",
			pod(`"metadata":{"generateName":"web-","annotations":{"a":"b"}},` +
				`"spec":{"dnsPolicy":"clusterFirstWithAutopath","hostNetwork":true}`),
			text(replaced, "") + "," + text(annotated, "")},
		{"a pod with another policy in the annotation", pod(`"metadata":{"annotations":{"dnsconfigurer.dev/policy":"None"}},` + autopath),
			text(replaced, "")},
		{"a template without metadata", workload("Deployment", autopath),
			text(replaced, "/spec/template") + "," + text(parent, "/spec/template", "") + "," +
				text(parent, "/spec/template", "/annotations") + "," + text(annotated, "/spec/template")},
		{"a template with metadata", workload("StatefulSet", `"metadata":{"labels":{"a":"b"}},`+autopath),
			text(replaced, "/spec/template") + "," + text(parent, "/spec/template", "/annotations") +
				"," + text(annotated, "/spec/template")},
		{"a CronJob", object("batch/v1", "CronJob", named+`"spec":{"jobTemplate":{"spec":{"template":{`+other+autopath+`}}}}`),
			text(replaced, "/spec/jobTemplate/spec/template") + "," + text(annotated, "/spec/jobTemplate/spec/template")},
		{"a PodTemplate", object("v1", "PodTemplate", named+`"template":{`+other+autopath+`}`),
			text(replaced, "/template") + "," + text(annotated, "/template")},
		{"without the policy", workload("DaemonSet", `"metadata":{`+text(byWebhook, "ClusterFirstWithAutopath")+`},"spec":{}`),
			text(removed, "/spec/template", "policy") + "," + text(removed, "/spec/template", "policy-from")},
		{"with another policy instead", pod(`"metadata":{` + text(byWebhook, "None") + `},"spec":{"dnsPolicy":"Default"}`),
			text(removed, "", "policy-from")},
		{"as stored", pod(`"metadata":{` + text(byWebhook, "ClusterFirstWithAutopath") +
			`},"spec":{"dnsPolicy":"ClusterFirstWithHostNet"}`), ""},
		{"Windows", pod(named + `"spec":{"dnsPolicy":"ClusterFirstWithAutopath","os":{"name":"windows"}}`), ""},
		{"Windows by its node selector",
			pod(named + `"spec":{"dnsPolicy":"ClusterFirstWithAutopath","nodeSelector":{"kubernetes.io/os":"windows"}}`), ""},
		{"another policy", pod(named + `"spec":{"dnsPolicy":"None"}`), ""},
		{"no policy", object("v1", "ReplicationController", named+`"spec":{}`), ""},
	} {
		for _, operation := range []string{"CREATE", "UPDATE"} {
			got := parseResponse(t, post(newHandler(t, nil), webhook.PathMutate, newReview(t, operation, []byte(tt.object))))
			if tt.want == "" {
				if !got.Allowed || got.Patch != nil || got.PatchType != nil {
					t.Errorf("%s: %+v", tt.name, got)
				}
				continue
			}
			if diff := cmp.Diff("["+tt.want+"]", string(got.Patch)); !got.Allowed || diff != "" ||
				*got.PatchType != admissionv1.PatchTypeJSONPatch {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		}
	}
}

// FuzzReview: the response is valid and has a UID, or it is an HTTP error. A pod is never
// denied without a reason, and warnings are within the limits.
func FuzzReview(f *testing.F) {
	table := must.Get(vectors.Load())(f)
	for _, v := range table {
		f.Add(newReview(f, v.Operation, v.Object))
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
		`"kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","object":{"spec":{"dnsConfig":{"options":[{"name":"\n"}]}}}}}`))
	h := webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(f)})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{webhook.PathValidate, webhook.PathMutate} {
			checkResponse(t, post(h, path, body))
		}
	})
}

func checkResponse(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 400 && w.Code < 500 {
		return
	}
	got := parseResponse(t, w)
	if got.UID == "" || !got.Allowed && got.Result.Message == "" {
		t.Errorf("%+v", got)
	}
	if got.Patch != nil && !json.Valid(got.Patch) {
		t.Errorf("patch %q", got.Patch)
	}
	checkWarnings(t, got.Warnings)
}

func checkWarnings(t *testing.T, warnings []string) {
	t.Helper()
	total := 0
	for _, line := range warnings {
		total += len([]rune(line))
		if line == "" {
			t.Errorf("an empty warning in %q", warnings)
		}
	}
	if total > 4096 {
		t.Errorf("%d characters of warnings", total)
	}
}

// TestHandler_Report covers the findings that the annotation and the configuration ignore, and
// the threshold of denials.
func TestHandler_Report(t *testing.T) {
	const (
		cut = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"%s},"spec":{"hostNetwork":true}}`
		set = `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"web",` +
			`"namespace":"shop"%s},"spec":{"template":{"spec":{"hostNetwork":true}}}}`
		bad = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","namespace":"shop"%s},
			"spec":{"subdomain":"db","setHostnameAsFQDN":true}}`

		code    = policy.CodeHostNetworkDefault
		tooLong = policy.CodeFQDNTooLong
	)
	annotated := func(code policy.Code) string {
		return fmt.Sprintf(`,"annotations":{"dnsconfigurer.dev/ignore":"x, %s"}`, code)
	}
	for _, tt := range []struct {
		name, object, metadata string
		report                 admission.Report
		want                   string
	}{
		{"a warning", cut, "", admission.Report{}, "warns"},
		{"the annotation", cut, annotated(code), admission.Report{}, "allows"},
		{"the annotation of a DaemonSet", set, annotated(code), admission.Report{}, "allows"},
		{"another code", cut, annotated(tooLong), admission.Report{}, "warns"},
		{"ignored by the configuration", cut, "", admission.Report{Ignore: []policy.Code{code}}, "allows"},
		{"denied for a warning", cut, "", admission.Report{DenyOn: admission.DenyOnWarning}, "denies"},
		{"an annotation does not allow what is denied", cut, annotated(code), admission.Report{DenyOn: admission.DenyOnWarning}, "denies"},
		{"a template is not denied", set, "", admission.Report{DenyOn: admission.DenyOnWarning}, "warns"},
		{"an error", bad, "", admission.Report{}, "denies"},
		{"an annotation does not ignore an error", bad, annotated(tooLong), admission.Report{}, "denies"},
		{"never denied", bad, "", admission.Report{DenyOn: admission.DenyNever}, "warns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t), Report: tt.report})
			got := parseResponse(t, post(h, webhook.PathValidate, newReview(t, "CREATE", fmt.Appendf(nil, tt.object, tt.metadata))))
			if verb(got) != tt.want {
				t.Errorf("%s, want %s: %+v", verb(got), tt.want, got)
			}
		})
	}
}
