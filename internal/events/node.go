// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// Reasons of the events on nodes.
const (
	ReasonBypassBegan = "ShimBypassed"
	ReasonBypassEnded = "ShimRestored"

	ReasonTaintRemoved = "StartupTaintRemoved"
	ReasonTaintKept    = "StartupTaintNotRemoved"

	ReasonHostFileUnusable = "HostResolvConfUnusable"
	ReasonHostFileUsable   = "HostResolvConfUsable"
)

// nodeReference returns a reference to a node. Like in the kubelet's events, the UID is the node's
// name, so that kubectl describe node shows the event.
func nodeReference(node string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

// SendNode sends an event about a node. Like the kubelet's, it is in the namespace default.
func SendNode(ctx context.Context, client rest.Interface, node, kind, reason, message string) error {
	now := metav1.NewTime(time.Now())
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: eventName(node, now.UnixNano())},
		InvolvedObject: nodeReference(node),
		Type:           kind, Reason: reason, Message: excerpt.Text(message, excerpt.MaxMessage),
		Source: corev1.EventSource{Component: "dnsconfigurer", Host: node}, ReportingController: "dnsconfigurer", ReportingInstance: node,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := client.Post().Namespace(e.Namespace).Resource("events").Timeout(callTimeout).Body(e).Do(ctx).Error(); err != nil {
		return fmt.Errorf("sending an event about the node: %w", err)
	}
	return nil
}
