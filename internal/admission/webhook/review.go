// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
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
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: reviewKind},
		Response: r,
	})
}
