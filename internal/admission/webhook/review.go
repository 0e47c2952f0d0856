// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const reviewKind = "AdmissionReview"

// review is the part of an AdmissionReview that is read. The user is not.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request `json:"request"`
}

type request struct {
	UID         types.UID                   `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Namespace   string                      `json:"namespace"`
	Name        string                      `json:"name"` // "" before it is generated
	Operation   admission.Operation         `json:"operation"`
	DryRun      bool                        `json:"dryRun"`
	Object      json.RawMessage             `json:"object"`
}

// parseReview returns the request of an AdmissionReview.
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

// hasPod reports whether the object may have a pod or pod template to check. Subresources
// have none, or cannot change it.
func (q *request) hasPod() bool {
	return q.SubResource == "" && (q.Operation == admission.Create || q.Operation == admission.Update) &&
		len(q.Object) > 0 && string(q.Object) != "null"
}

// isScale reports whether q scales a StatefulSet. The host names of other objects do not get
// longer with more replicas.
func (q *request) isScale() bool {
	return q.SubResource == "scale" && q.Operation == admission.Update && q.Resource == statefulSets && q.Kind == scaleKind
}

func (q *request) apiVersion() string {
	return metav1.GroupVersion{Group: q.Kind.Group, Version: q.Kind.Version}.String()
}

// operation returns a label value.
func (q *request) operation() string {
	if slices.Contains([]admission.Operation{admission.Create, admission.Update}, q.Operation) {
		return string(q.Operation)
	}
	return "other"
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
