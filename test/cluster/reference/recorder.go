// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

// recorder keeps events with the object reference that a cluster's recorder sends. It is
// not safe for concurrent use.
type recorder struct{ events []cases.Event }

func (r *recorder) Event(object runtime.Object, eventtype, reason, message string) {
	ref, err := reference.GetReference(scheme.Scheme, object)
	if err != nil { // a cluster's recorder drops the event
		panic(err)
	}
	name := ref.Kind + " " + ref.Name
	if ref.Kind == "Pod" {
		name = "Pod " + ref.Namespace + "/" + ref.Name
	}
	r.events = append(r.events, cases.Event{Object: name, UID: string(ref.UID), Type: eventtype, Reason: reason, Message: message})
}

func (r *recorder) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	r.Event(object, eventtype, reason, fmt.Sprintf(format, args...))
}

func (r *recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventtype, reason, format string, args ...any) {
	r.Eventf(object, eventtype, reason, format, args...)
}

func (r *recorder) WithLogger(klog.Logger) record.EventRecorderLogger { return r }

// take returns the events since the last call.
func (r *recorder) take() []cases.Event {
	events := r.events
	r.events = nil
	return events
}
