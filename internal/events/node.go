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
)

// SendNode sends an event about a node. Like the kubelet's, it is in the namespace default and
// has the node's name as UID, so that kubectl describe node shows it.
func SendNode(ctx context.Context, client rest.Interface, node, kind, reason, message string) error {
	now := metav1.NewTime(time.Now())
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: eventName(node, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)},
		Type:           kind, Reason: reason, Message: excerpt.Text(message, excerpt.MaxMessage),
		Source: corev1.EventSource{Component: "dnsconfigurer", Host: node}, ReportingController: "dnsconfigurer", ReportingInstance: node,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := client.Post().Namespace(e.Namespace).Resource("events").Timeout(callTimeout).Body(e).Do(ctx).Error(); err != nil {
		return fmt.Errorf("sending an event about the node: %w", err)
	}
	return nil
}
