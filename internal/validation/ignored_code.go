// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// maxCodeNotes is the number of unknown codes of which each has a note: a chart repeats its
// mistake in every object.
const maxCodeNotes = 10

// codeNotes are notes about the codes in admission.IgnoreAnnotation that no finding has. They are
// not findings: a misspelled code must not fail what passed before.
type codeNotes struct {
	known []policy.Code
	notes []error // at most maxCodeNotes
	more  int
}

// noteCodes returns the notes about the annotations of the input, joined.
func (in *input) noteCodes() error {
	n := codeNotes{known: admission.Codes()}
	for _, w := range in.Workloads {
		if w.Kind != admission.KindPod { // a Pod's annotations are those of its template
			n.check(w.At, "", w.Annotations)
		}
		n.check(w.At, w.Path+"metadata.annotations["+admission.IgnoreAnnotation+"]", w.Pod.Annotations)
	}
	for _, s := range in.services {
		n.check(s.Source.At, "", s.Annotations)
	}
	if n.more > 0 {
		n.notes = append(n.notes, fmt.Errorf("annotations %s: %d more unknown codes", admission.IgnoreAnnotation, n.more))
	}
	return errors.Join(n.notes...)
}

// check notes the unknown codes in the annotations of an object. field is the place of the notes;
// "" is that of the object.
func (n *codeNotes) check(at func(field string) kube.Location, field string, annotations map[string]string) {
	for code := range strings.SplitSeq(annotations[admission.IgnoreAnnotation], ",") {
		code = strings.TrimSpace(code)
		switch {
		case code == "" || slices.Contains(n.known, policy.Code(code)):
		case len(n.notes) == maxCodeNotes:
			n.more++
		default:
			place := at(field)
			place.Field = "" // the message names the annotation
			err := fmt.Errorf("annotation %s: %w", admission.IgnoreAnnotation, admission.CheckCode(code))
			n.notes = append(n.notes, &kube.InputError{Location: place, Err: err})
		}
	}
}
