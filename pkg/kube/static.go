// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configSourceAnnotation is on every pod that a kubelet has taken in.
const configSourceAnnotation = "kubernetes.io/config.source"

// StaticPod returns the pod that the kubelet of node makes of a manifest in its
// static pod directory (pkg/kubelet/config): the node's name in lower case is part
// of the pod's name, an empty namespace is default, and the API's defaults are set.
// A pod that a kubelet has already taken in is returned as it is.
func StaticPod(manifest *corev1.Pod, node string) *corev1.Pod {
	if manifest.Annotations[configSourceAnnotation] != "" {
		return manifest
	}
	pod := manifest.DeepCopy()
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node
	SetDefaults(&pod.Spec)
	return pod
}
